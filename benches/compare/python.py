"""The Python client's side of `compare`: does what it is told, one line of JSON each way.

usage: python.py default|best   (or `python.py ping`, which asks once and ends)
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

os.environ["POLYAXON_NO_CONFIG"] = "true"

from polyaxon._schemas.client import ClientConfig  # noqa: E402
from polyaxon.client import PolyaxonClient, SandboxClient  # noqa: E402

PLACE = json.loads(os.environ["COMPARE_PLACE"])
MIB = 1 << 20
BEST = sys.argv[1] == "best"
# The best settings: pages as large as the service takes, a poll without a pause to speak of, and
# as many threads as the service runs commands by default.
PAGE = {"chunk_size": 16 * MIB} if BEST else {}
POLL = {"interval": 0.01} if BEST else {}
THREADS = 64


def client(url, threads=4):
    config = ClientConfig(host=url, token=PLACE["token"], timeout=600, connection_pool_maxsize=threads)
    return SandboxClient(
        owner=PLACE["owner"],
        project=PLACE["project"],
        run_uuid=PLACE["run"],
        client=PolyaxonClient(config=config, token=PLACE["token"]),
    )


SANDBOX = client(PLACE["url"], THREADS if BEST else 4)
EVENTS = client(PLACE["events_url"])
SCRATCH = pathlib.Path(tempfile.mkdtemp())


def true(_=None):
    return SANDBOX.process.exec(["/bin/true"]).exit_code == 0


def many(call, items):
    """All of it: one after the other by default, by threads at best."""
    if not BEST:
        return [call(item) for item in items]
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(call, items))


def run_exec(count, size):
    samples, fine = [], 0
    for _ in range(count):
        started = time.perf_counter()
        fine += true()
        samples.append(time.perf_counter() - started)
    return samples, "{} exited with 0".format(fine)


def run_burst(count, size):
    started = time.perf_counter()
    fine = sum(many(true, range(count)))
    return [time.perf_counter() - started], "{} exited with 0".format(fine)


def run_events(count, size):
    got = 0
    started = time.perf_counter()
    with EVENTS.process.exec_stream(["events", str(size), str(count)]) as events:
        for event in events:
            got += len(event.get("text") or "")
    return [time.perf_counter() - started], "{} bytes".format(got)


def run_download(count, size):
    started = time.perf_counter()
    SANDBOX.fs.download_file("/tmp/large-{}".format(size), SCRATCH / "down", **PAGE)
    took = time.perf_counter() - started
    got = (SCRATCH / "down").stat().st_size
    (SCRATCH / "down").unlink()
    return [size / MIB / took], "{} bytes".format(got)


def run_upload(count, size):
    local = SCRATCH / "up"
    with local.open("wb") as handle:
        for _ in range(size // MIB):
            handle.write(b"x" * MIB)
    started = time.perf_counter()
    SANDBOX.fs.upload_file(local, "/tmp/up-python", **PAGE)
    took = time.perf_counter() - started
    local.unlink()
    return [size / MIB / took], "{} bytes".format(SANDBOX.fs.stat("/tmp/up-python").size)


def run_files(count, size):
    SANDBOX.fs.rm("/tmp/files-python", recursive=True)
    SANDBOX.fs.mkdir("/tmp/files-python")
    data = b"x" * size
    started = time.perf_counter()
    many(lambda number: SANDBOX.fs.write("/tmp/files-python/f{}".format(number), data), range(count))
    took = time.perf_counter() - started
    got = len(SANDBOX.fs.ls("/tmp/files-python", max_entries=10000).entries)
    return [took], "{} files".format(got)


WRITER = """
import sys, time
for _ in range({}):
    time.sleep(0.05)
    print(time.time(), flush=True)
"""


def run_follow(count, size):
    started = SANDBOX.process.exec_bg(["python3", "-u", "-c", WRITER.format(count)], timeout_ms=300000)
    samples = []
    for chunk in started.iter_stdout(**POLL):
        now = time.time()
        samples.extend(now - float(line) for line in chunk.split())
    return samples, "{} lines".format(len(samples))


def serve():
    # What the client prints is nobody's answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        task = json.loads(line)
        samples, check = globals()["run_" + task["scenario"]](task["count"], task["size"])
        print(json.dumps({"samples": samples, "check": check}), file=answers, flush=True)


if __name__ == "__main__":
    try:
        if sys.argv[1] == "ping":
            assert SANDBOX.ping().status == "ok"
        else:
            serve()
    finally:
        shutil.rmtree(SCRATCH)
