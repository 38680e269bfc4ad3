"""Serves the open-source Polyaxon control plane on a free port of 127.0.0.1.

usage: control_plane.py FOLDER SECONDS

All state goes below FOLDER. SECONDS is how long a call waits for a locked database before it fails.
Prints {"ready": "http://..."} when it answers, and ends when its stdin is closed.
"""

import http.client
import json
import os
import socket
import sys
import threading
import time

import parent


def take_port():
    """A port that nobody else is given as long as the socket lives: bound, and not listened at. A
    server that reuses addresses, as this one does, can listen at it all the same."""
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    taken.bind(("127.0.0.1", 0))
    return taken


def answers(port):
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/healthz/")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False


def say_when_ready(stdout, port):
    while not answers(port):
        time.sleep(0.1)
    parent.say_ready(stdout, "http://127.0.0.1:{}".format(port))


def main():
    folder, lock_seconds = os.path.abspath(sys.argv[1]), float(sys.argv[2])
    places = {
        "HOME": "home",
        "POLYAXON_ARCHIVES_ROOT": "archives",
        "POLYAXON_LOG_ROOT": "logs",
    }
    for variable, name in places.items():
        os.environ[variable] = os.path.join(folder, name)
        os.makedirs(os.environ[variable], exist_ok=True)
    options = {"transaction_mode": "IMMEDIATE", "timeout": lock_seconds}
    os.environ["POLYAXON_DB_OPTIONS"] = json.dumps(options)
    os.environ["POLYAXON_SECRET_INTERNAL_TOKEN"] = "internal-test-token"
    # Its own pages, below /ui/, from POLYAXON_STATIC_ROOT.
    os.environ["POLYAXON_UI_IN_SANDBOX"] = "true"
    os.environ["POLYAXON_UI_OFFLINE"] = "true"

    stdout = parent.take_stdout()
    parent.end_with_parent()
    taken = take_port()
    port = taken.getsockname()[1]
    threading.Thread(target=say_when_ready, args=(stdout, port), daemon=True).start()

    # Imported late: it reads the environment when it is loaded.
    from haupt.main import cli

    where = ["--host", "127.0.0.1", "--port", str(port), "--path", folder]
    sys.argv = ["haupt", "sandbox", "start", "--workers", "1"] + where
    cli()


if __name__ == "__main__":
    main()
