"""The Python module's side: COUNT values of one metric, offline or to a server. Prints, as JSON on the
last line, the seconds of the start, the calls and the end, and the kilobytes of memory after the calls
and at the most.

usage: speed.py FOLDER COUNT offline|online
"""

import json
import resource
import sys
import time

from polyaxon import tracking


def resident():
    with open("/proc/self/status") as status:
        lines = dict(line.split(":", 1) for line in status)
    return int(lines["VmRSS"].split()[0])


folder, count, way = sys.argv[1], int(sys.argv[2]), sys.argv[3]
where = {"run_uuid": "0" * 31 + "1", "is_offline": True, "artifacts_path": folder}
if way == "online":
    where = {"is_new": True}
before = time.perf_counter()
run = tracking.Run(
    owner="default",
    project="speed",
    track_code=False,
    track_env=False,
    track_logs=False,
    collect_resources=False,
    **where,
)
started = time.perf_counter()
for step in range(count):
    run.log_metric("loss", 1.0 / (step + 1), step=step)
logged = time.perf_counter()
after = resident()
run.end()
ended = time.perf_counter()
figures = {
    "start": started - before,
    "calls": logged - started,
    "end": ended - logged,
    "after_kb": after,
    "peak_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
}
print("\n" + json.dumps(figures))
