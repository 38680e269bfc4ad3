"""What the servers here have in common: how they say that they serve, and when they end."""

import json
import os
import signal
import sys
import threading


def take_stdout():
    """Keeps stdout for the one line that a caller reads; all that others print goes to stderr."""
    sys.stdout.flush()
    ours = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return ours


def say_ready(stdout, url):
    print(json.dumps({"ready": url}), file=stdout, flush=True)


def end_with_parent():
    """Ends this process by SIGTERM once stdin is closed, so that it never outlives who started it,
    however that ended."""

    def wait():
        # Not `sys.stdin`: its lock would be waited for at the end of the interpreter.
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()
