"""One run of mini-swe-agent with a model and an environment that cost nothing, measured in CPU time.

Reads one JSON object a line, {"turns", "bytes", "file"}, and answers each with {"us_per_turn"}.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ["MSWEA_SILENT_STARTUP"] = "1"
os.environ["MSWEA_GLOBAL_CONFIG_DIR"] = tempfile.mkdtemp()

from minisweagent.agents.default import DefaultAgent  # noqa: E402
from minisweagent.models.utils.actions_text import format_observation_messages  # noqa: E402

OBSERVATION = "<returncode>{{output.returncode}}</returncode>\n<output>\n{{output.output}}</output>"


class Model:
    """Says the same as the model of the other side: as many bytes, in one action."""

    config = None

    def __init__(self, size):
        self.size = size
        self.calls = 0

    def query(self, messages, **kwargs):
        self.calls += 1
        text = f"write {self.calls} " + "x" * self.size
        return {"role": "assistant", "content": text, "extra": {"actions": [{"command": text}], "cost": 0.0}}

    def format_message(self, **kwargs):
        return kwargs

    def format_observation_messages(self, message, outputs, template_vars=None):
        return format_observation_messages(
            outputs, observation_template=OBSERVATION, template_vars=template_vars
        )

    def get_template_vars(self, **kwargs):
        return {}

    def serialize(self):
        return {}


class Environment:
    """Answers every action with as many bytes."""

    config = None

    def __init__(self, size):
        self.output = "y" * size

    def execute(self, action, cwd=""):
        return {"output": self.output, "returncode": 1, "exception_info": ""}

    def get_template_vars(self, **kwargs):
        return {}

    def serialize(self):
        return {}


for line in sys.stdin:
    task = json.loads(line)
    with tempfile.TemporaryDirectory() as folder:
        agent = DefaultAgent(
            Model(task["bytes"]),
            Environment(task["bytes"]),
            system_template="You repair a small project.",
            instance_template="Task: {{task}}",
            step_limit=task["turns"],
            output_path=Path(folder) / "run.json" if task["file"] else None,
        )
        before = time.process_time_ns()
        agent.run("Make it right.")
        took = time.process_time_ns() - before
    assert agent.n_calls == task["turns"], agent.n_calls
    print(json.dumps({"us_per_turn": took / 1000 / task["turns"]}), flush=True)
