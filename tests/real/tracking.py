"""What the platform's own Python module makes of runs that were tracked by the Rust one, and the
other way round. One word says what is to be done; the answer is JSON on the last line."""

import json
import os
import sys

from polyaxon import tracking
from polyaxon.client import RunClient


def client(uuid=None):
    return RunClient(owner="default", project=os.environ["PROJECT"], run_uuid=uuid)


def read(uuid, names="loss,acc"):
    run = client(uuid)
    run.refresh_data()
    events = run.get_events(kind="metric", names=names, orient="dict", force=True).data
    events = [event if isinstance(event, dict) else event.to_dict() for event in events]
    lineage = run.get_artifacts_lineage(limit=100).results
    tree = run.get_artifacts_tree(path="outputs")
    logs = run.get_logs().logs
    return {
        "name": run.run_data.name,
        "status": run.run_data.status,
        "inputs": run.run_data.inputs,
        "outputs": run.run_data.outputs,
        "meta": run.run_data.meta_info,
        "series": {series["name"]: series["data"]["metric"] for series in events},
        "lineage": sorted([record.name, record.kind, record.path] for record in lineage),
        "files": tree.files,
        "logs": [line.value for line in logs],
    }


def push(path):
    RunClient.load_offline_run(path=path, raise_if_not_found=True).push_offline_run(path=path)
    return {}


def make(root, uuid):
    run = tracking.Run(
        owner="default",
        project=os.environ["PROJECT"],
        run_uuid=uuid,
        is_offline=True,
        track_code=False,
        track_env=False,
        collect_resources=False,
        artifacts_path=os.path.join(root, "runs", uuid),
    )
    run.log_inputs(lr=0.1)
    run.log_metrics(loss=0.5, step=1)
    run.log_metrics(loss=0.25, step=2)
    with open(run.get_outputs_path("report.txt"), "w") as file:
        file.write("report")
    run.log_artifact_ref(path=run.get_outputs_path("report.txt"), kind="file")
    run.end()
    return {"path": os.path.join(root, "runs", uuid)}


def pull(uuid, root):
    return {"path": client(uuid).pull_remote_run(path=root)}


answer = {"read": read, "push": push, "make": make, "pull": pull}[sys.argv[1]](*sys.argv[2:])
print("\n" + json.dumps(answer))
