"""Locks a SQLite database until its stdin is closed.

usage: lock_database.py FILE

Prints {"ready": "file:..."} when it has the lock.
"""

import pathlib
import sqlite3
import sys
import threading

import parent


def main():
    stdout = parent.take_stdout()
    parent.end_with_parent()
    where = pathlib.Path(sys.argv[1]).resolve().as_uri() + "?mode=rw"
    # No implicit transactions: this one stays open.
    connection = sqlite3.connect(where, uri=True, timeout=30, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    parent.say_ready(stdout, where)
    threading.Event().wait()


if __name__ == "__main__":
    main()
