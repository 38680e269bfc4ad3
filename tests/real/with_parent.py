"""Runs a program, and asks it to end (SIGTERM) once stdin here is closed.

usage: with_parent.py PROGRAM ARGUMENTS...

For programs that do not look at their stdin: so they never outlive who started this, however that ended.
"""

import os
import subprocess
import sys
import threading


def main():
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)

    def end_with_parent():
        while os.read(0, 4096):
            pass
        child.terminate()

    threading.Thread(target=end_with_parent, daemon=True).start()
    sys.exit(child.wait())


if __name__ == "__main__":
    main()
