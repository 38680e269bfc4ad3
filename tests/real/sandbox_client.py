"""Uses a sandbox through the Python client, as its users do, and says what worked.

usage: sandbox_client.py URL OWNER PROJECT FOLDER

The token is read from the environment variable CLIENT_TOKEN. FOLDER is for files. Prints a line of JSON for each check:
{"check": "...", "ok": true, "detail": ""}. The exit status is 0 when all were made, whatever came out.
Ends when its stdin is closed.
"""

import hashlib
import json
import os
import pathlib
import sys
import time

# The configuration of whoever runs this is not looked at, and never written.
os.environ["POLYAXON_NO_CONFIG"] = "true"
os.environ["POLYAXON_WATCH_INTERVAL"] = "1"

import requests  # noqa: E402
from polyaxon._schemas.client import ClientConfig  # noqa: E402
from polyaxon.client import PolyaxonClient, RunClient, SandboxClient  # noqa: E402
from polyaxon.exceptions import ApiException, PolyaxonClientException  # noqa: E402
from polyaxon.schemas import V1ExecRequest  # noqa: E402

import parent  # noqa: E402

CHECKS = []
MIB = 1 << 20

# What breaks a path that is quoted or split carelessly somewhere on the way.
ODD_NAMES = [
    "with blank",
    " leading and trailing ",
    "plus+plus",
    "per%cent",
    "%2e%2e",
    "a&b=c;d#e?f",
    "back\\slash",
    "quo\"te's",
    "new\nline",
    "tab\there",
    "-rf",
    "*",
    "~",
    "…",
    "日本語",
    "e\u0301",
    "🦀",
    "x" * 255,
]

# Waits up to two seconds for a process to be gone. One that is dead and that nobody has collected yet,
# which is up to the machine, is gone too.
GONE = """
for turn in 1 2 3 4 5 6 7 8 9 10; do
    kill -0 "$PID" 2>/dev/null || exit 0
    case "$(cat "/proc/$PID/stat" 2>/dev/null)" in *") Z "*) exit 0 ;; esac
    sleep 0.2
done
exit 3
"""


def check(function):
    CHECKS.append(function)
    return function


def equal(got, expected, what=""):
    if got != expected:
        raise AssertionError("{}: got {:.200}, expected {:.200}".format(what, repr(got), repr(expected)))


def refused(status, code, call, *args, **kwargs):
    """The error body of a call that the service has to refuse, by a JSON method."""
    try:
        value = call(*args, **kwargs)
    except ApiException as error:
        equal(error.status, status, "status, with the body {}".format(error.body))
        body = json.loads(error.body)["error"]
        equal(body["code"], code, "code")
        if not body["message"]:
            raise AssertionError("no message")
        return body
    raise AssertionError("not refused: {!r:.200}".format(value))


def told(words, call, *args, **kwargs):
    """The message of a call that the service has to refuse, by a method for bytes: it has nothing else."""
    try:
        value = call(*args, **kwargs)
    except PolyaxonClientException as error:
        if words not in str(error):
            raise AssertionError("{!r} is not in {!r}".format(words, str(error)))
        if "failed with status" in str(error):
            raise AssertionError("the client found no message in the answer: {}".format(error))
        return
    raise AssertionError("not refused: {!r:.200}".format(value))


class Sandbox:
    def __init__(self, url, owner, project, folder):
        self.url, self.owner, self.project = url, owner, project
        self.token = os.environ["CLIENT_TOKEN"]
        self.folder = pathlib.Path(folder)
        self.run = None
        self.client = SandboxClient(owner=owner, project=project, client=self.api(self.token))

    def api(self, token):
        return PolyaxonClient(config=ClientConfig(host=self.url, token=token))

    def run_client(self, run_uuid, token=None):
        return RunClient(
            owner=self.owner,
            project=self.project,
            run_uuid=run_uuid,
            client=self.api(token or self.token),
        )

    @property
    def fs(self):
        return self.client.fs

    def exec(self, *command, **kwargs):
        return self.client.process.exec(command=list(command), **kwargs)

    def sh(self, script, **kwargs):
        return self.exec("sh", "-c", script, **kwargs)

    def raw(self, method, subpath, token=None, **kwargs):
        """A request below the client, to see status and headers of methods that hide them."""
        url = self.client._sandbox_url(self.client._resolve_namespace(), subpath)
        headers = {"Authorization": "Token {}".format(token or self.token)}
        return requests.request(method, url, headers=headers, timeout=30, **kwargs)


# ------------------------------------------------------------------------------------ the run


@check
def a_created_run_waits_for_its_approval(s):
    created = s.client.create(
        name="from-python",
        description="a sandbox of a test",
        tags=["a", "b"],
        meta_info={"attempt": 3},
        pending="approval",
        image="python:3.12-slim",
        env={"LEVEL": "debug"},
        cpu="500m..1",
        memory="512Mi",
    )
    equal(len(created.uuid), 32, "length of the uuid")
    s.run = s.run_client(created.uuid)
    s.run.refresh_data()
    run = s.run.run_data
    equal(run.name, "from-python", "name")
    equal(run.description, "a sandbox of a test", "description")
    equal(run.tags, ["a", "b"], "tags")
    equal(run.meta_info["attempt"], 3, "meta_info")
    equal(run.owner, s.owner, "owner")
    equal(run.project, s.project, "project")
    equal(str(run.pending), "approval", "pending")
    equal(str(run.status), "created", "status")


@check
def an_approved_run_comes_to_running(s):
    s.run.approve()
    s.run.wait_for_condition(statuses=["running"])
    status, conditions = s.run.get_statuses()
    equal(status, "running", "status")
    kinds = [str(condition.type) for condition in conditions]
    equal(kinds[0], "created", "first condition")
    equal(kinds[-1], "running", "last condition")


@check
def ping_says_that_the_service_is_up(s):
    answer = s.client.ping()
    equal(answer.status, "ok", "status")
    equal(answer.execs_running, 0, "execs_running")
    if not isinstance(answer.uptime_ms, int) or answer.last_activity is None:
        raise AssertionError("uptime_ms or last_activity is missing")


# ------------------------------------------------------------------------------------ exec


@check
def exec_returns_output_and_exit_status(s):
    result = s.sh("printf out; printf err >&2")
    equal((result.exit_code, result.stdout, result.stderr), (0, "out", "err"), "result")
    equal((result.timed_out, result.signal), (False, None), "timed_out, signal")
    equal((bool(result.stdout_truncated), bool(result.stderr_truncated)), (False, False), "truncated")
    if not result.exec_id or not isinstance(result.duration_ms, int):
        raise AssertionError("exec_id or duration_ms is missing")
    for code in (1, 7, 126, 255):
        equal(s.sh("exit {}".format(code)).exit_code, code, "exit_code")


@check
def exec_hands_its_arguments_over_unchanged(s):
    words = ["$HOME", "a  b", "*", "", "é日本", "q\"'\\", "-n", "new\nline"]
    equal(s.exec("printf", "%s|", *words).stdout, "".join(word + "|" for word in words), "stdout")


@check
def exec_sets_empties_and_unsets_variables(s):
    script = 'printf "%s|%s|%s|%s" "$A" "${E-gone}" "${HOME-gone}" "${PATH:+there}"'
    equal(s.sh(script, env={"A": "1 é", "E": "", "HOME": None}).stdout, "1 é||gone|there", "stdout")
    refused(400, "reserved_env_key", s.sh, "true", env={"POLYAXON_X": "1"})


@check
def exec_runs_where_it_is_told_to(s):
    s.fs.mkdir("/workspace/where", parents=True)
    s.fs.write_text("/workspace/where/name.txt", "here")
    equal(s.exec("cat", "name.txt", workdir="/workspace/where").stdout, "here", "stdout")
    s.exec("sh", "-c", "printf made > by-exec.txt", workdir="/workspace/where")
    equal(s.fs.read_text("/workspace/where/by-exec.txt"), "made", "what exec wrote")
    for bad in ("where", "/no/such/folder"):
        refused(400, "invalid_request", s.sh, "true", workdir=bad)


@check
def exec_feeds_its_stdin(s):
    equal(s.exec("cat", stdin="héllo\n").stdout, "héllo\n", "text")
    every_byte = bytes(range(256))
    digest = s.exec("sha256sum", stdin=every_byte).stdout.split()[0]
    equal(digest, hashlib.sha256(every_byte).hexdigest(), "digest of the bytes")
    equal(s.exec("wc", "-c", stdin=b"x" * MIB).stdout.strip(), str(MIB), "a mebibyte")
    equal(s.exec("true", stdin=b"x" * MIB).exit_code, 0, "exit code where nobody reads it")
    equal(s.exec("cat", timeout_ms=5000).stdout, "", "without stdin")


@check
def exec_ends_at_its_time_limit_with_all_that_it_started(s):
    began = time.monotonic()
    result = s.sh("sleep 61 & echo $!; wait", timeout_ms=700)
    if time.monotonic() - began > 20:
        raise AssertionError("took {:.1f} s".format(time.monotonic() - began))
    equal((result.timed_out, result.exit_code, result.signal), (True, -1, "SIGKILL"), "result")
    child = result.stdout.strip()
    equal(s.sh(GONE, env={"PID": child}).exit_code, 0, "exit code of the search for {}".format(child))
    refused(400, "invalid_request", s.sh, "true", timeout_ms=-1)
    refused(400, "invalid_request", s.sh, "true", timeout_ms=300001)


@check
def exec_names_the_signal_that_ended_it(s):
    for name in ("KILL", "TERM", "SEGV"):
        result = s.sh("kill -{} $$".format(name))
        equal((result.exit_code, result.signal, result.timed_out), (-1, "SIG" + name, False), "result")


@check
def exec_says_that_a_program_does_not_exist(s):
    for program in ("no-such-program-here", "/no/such/program"):
        body = refused(500, "internal", s.exec, program)
        if program not in body["message"]:
            raise AssertionError("the message does not name it: {}".format(body["message"]))


@check
def exec_refuses_what_is_no_command(s):
    api, ids = s.client.client.sandbox_v1, s.client.process._run_args()
    refused(400, "invalid_request", api.call_exec, *ids, body=V1ExecRequest(command=[]))
    refused(400, "invalid_request", s.exec, "")
    refused(400, "invalid_request", s.exec, "echo", "x" * 4096)
    equal(s.raw("POST", "exec", data=b"{").status_code, 400, "status for what is no JSON")


@check
def exec_keeps_the_first_mebibyte_of_each_output(s):
    result = s.sh("head -c 524288 /dev/zero | tr '\\0' x")
    equal((len(result.stdout), bool(result.stdout_truncated)), (524288, False), "half of it")
    result = s.sh("head -c 3145728 /dev/zero | tr '\\0' x; echo e >&2")
    equal((result.exit_code, result.stderr), (0, "e\n"), "result")
    equal((len(result.stdout), result.stdout_truncated), (MIB, True), "stdout")
    equal(bool(result.stderr_truncated), False, "stderr_truncated")


@check
def exec_replaces_bytes_that_are_no_text(s):
    equal(s.sh("printf 'a\\377\\376b\\303\\251'").stdout, "a\ufffd\ufffdbé", "stdout")


# ------------------------------------------------------------------------------------ files


@check
def a_written_file_is_read_back(s):
    path = "/workspace/written.txt"
    first = s.fs.write_text(path, "héllo\n", mode=0o640)
    equal((first.path, first.bytes_written, first.created), (path, 7, True), "first write")
    equal(s.fs.stat(path).mode, "0640", "mode")
    again = s.fs.write_text(path, "short")
    equal((again.bytes_written, again.created), (5, False), "second write")
    equal(s.fs.stat(path).mode, "0640", "mode after a write of another")
    s.fs.write_text(path, " and long", append=True)
    equal(s.fs.read_text(path), "short and long", "text")
    every_byte = bytes(range(256)) * 300
    s.fs.write_bytes("/workspace/bytes", every_byte)
    equal(s.fs.read_bytes("/workspace/bytes"), every_byte, "bytes")
    s.fs.write_bytes("/workspace/empty", b"")
    equal(s.fs.read_bytes("/workspace/empty"), b"", "nothing")


@check
def a_file_is_read_in_parts(s):
    path = "/workspace/parts"
    s.fs.write(path, b"0123456789")
    table = [
        (dict(offset=0, length=4), (b"0123", 4, False)),
        (dict(offset=4, length=6), (b"456789", 10, True)),
        (dict(offset=9, length=100), (b"9", 10, True)),
        (dict(offset=10), (b"", 10, True)),
        (dict(offset=50), (b"", 50, True)),
        (dict(), (b"0123456789", 10, True)),
    ]
    for arguments, expected in table:
        got = s.fs.read(path, **arguments)
        equal((got.data, got.next_offset, got.eof), expected, str(arguments))
    equal(s.fs.read_bytes(path, chunk_size=3), b"0123456789", "three at a time")
    equal(s.fs.read_bytes(path, chunk_size=5), b"0123456789", "five at a time")
    equal(s.fs.read_text(path, offset=2, length=5, chunk_size=2), "23456", "a part as text")
    for query in ("offset=-1", "length=0", "length=16777217", "offset=x"):
        status = s.raw("GET", "fs/read?path={}&{}".format(path, query)).status_code
        equal(status, 400, query)


@check
def files_with_odd_names_are_files(s):
    folder = "/workspace/odd names+%/é"
    s.fs.mkdir(folder, parents=True)
    for number, name in enumerate(ODD_NAMES):
        path = "{}/{}".format(folder, name)
        text = "number {}".format(number)
        equal(s.fs.write_text(path, text).path, path, "path of the write")
        equal(s.fs.read_text(path), text, "text of {!r}".format(name))
        stat = s.fs.stat(path)
        equal((stat.path, stat.size), (path, len(text)), "stat of {!r}".format(name))
    names = [entry.name for entry in s.fs.ls(folder).entries]
    equal(sorted(names), sorted(ODD_NAMES), "names")
    for name in ODD_NAMES:
        s.fs.rm("{}/{}".format(folder, name))
    equal(s.fs.ls(folder).entries, [], "entries at last")


@check
def a_path_is_cleaned_and_leads_nowhere_else(s):
    s.fs.write_text("/workspace/clean.txt", "clean")
    for path in ("//workspace/./clean.txt", "/workspace/x/../clean.txt", "/../workspace/clean.txt/"):
        equal(s.fs.stat(path).path, "/workspace/clean.txt", path)
        equal(s.fs.read_text(path), "clean", path)
    status = s.raw("GET", "fs/stat?path=workspace/clean.txt").status_code
    equal(status, 400, "status for a relative path")
    # Of this machine, not of the sandbox.
    outside = s.folder / "outside.txt"
    outside.write_text("secret")
    linked = s.exec("ln", "-s", str(outside), "out", workdir="/workspace")
    equal(linked.exit_code, 0, "exit code of ln")
    equal(s.fs.stat("/workspace/out").symlink_target, str(outside), "target")
    answer = s.raw("GET", "fs/read?path=/workspace/out")
    if answer.status_code not in (403, 404) or b"secret" in answer.content:
        raise AssertionError("read through a link: {} {}".format(answer.status_code, answer.content))
    answer = s.raw("POST", "fs/write?path=/workspace/out", data=b"changed")
    if answer.status_code not in (403, 404) or outside.read_text() != "secret":
        raise AssertionError("write through a link: {}".format(answer.status_code))


@check
def ls_lists_names_types_and_sizes(s):
    s.fs.mkdir("/workspace/list/sub/deep", parents=True)
    s.fs.write_text("/workspace/list/b.txt", "four")
    s.fs.write_text("/workspace/list/sub/deep/c.txt", "")
    s.exec("ln", "-s", "b.txt", "a-link", workdir="/workspace/list")
    listing = s.fs.ls("/workspace/list")
    equal((listing.path, listing.truncated), ("/workspace/list", False), "path, truncated")
    found = [(entry.name, entry.type, entry.symlink_target) for entry in listing.entries]
    equal(found, [("a-link", "symlink", "b.txt"), ("b.txt", "file", None), ("sub", "dir", None)], "entries")
    by_name = {entry.name: entry for entry in listing.entries}
    equal((by_name["b.txt"].size, by_name["b.txt"].mode), (4, "0644"), "size, mode")
    if by_name["sub"].mtime is None:
        raise AssertionError("no mtime")
    names = [entry.name for entry in s.fs.ls("/workspace/list", recursive=True).entries]
    equal(names, ["a-link", "b.txt", "sub", "sub/deep", "sub/deep/c.txt"], "names of all")
    cut = s.fs.ls("/workspace/list", max_entries=2)
    equal((len(cut.entries), cut.truncated), (2, True), "cut list")
    equal(s.fs.ls("/workspace/list", max_entries=3).truncated, False, "truncated where all fit")
    refused(409, "conflict", s.fs.ls, "/workspace/list/b.txt")
    refused(404, "not_found", s.fs.ls, "/workspace/no-such")
    refused(400, "invalid_request", s.fs.ls, "/workspace", max_entries=0)
    refused(400, "invalid_request", s.fs.ls, "/workspace", max_entries=10001)


@check
def mkdir_makes_folders(s):
    equal(s.fs.mkdir("/workspace/made", mode=0o750).path, "/workspace/made", "path")
    stat = s.fs.stat("/workspace/made")
    equal((stat.type, stat.mode), ("dir", "0750"), "type, mode")
    refused(409, "conflict", s.fs.mkdir, "/workspace/made")
    equal(s.fs.mkdir("/workspace/made", parents=True).path, "/workspace/made", "made twice")
    refused(404, "not_found", s.fs.mkdir, "/workspace/no/parent")
    s.fs.mkdir("/workspace/with/a/parent", parents=True)
    equal(s.fs.stat("/workspace/with/a").type, "dir", "type of the parent")
    s.fs.write_text("/workspace/made/file", "")
    refused(409, "conflict", s.fs.mkdir, "/workspace/made/file", parents=True)


@check
def rm_removes_files_links_and_folders(s):
    s.fs.mkdir("/workspace/gone/sub", parents=True)
    s.fs.write_text("/workspace/gone/sub/file", "")
    s.fs.write_text("/workspace/kept", "kept")
    s.exec("ln", "-s", "../kept", "link", workdir="/workspace/gone")
    equal(s.fs.rm("/workspace/gone/link").path, "/workspace/gone/link", "path")
    equal(s.fs.read_text("/workspace/kept"), "kept", "target of the link")
    refused(409, "conflict", s.fs.rm, "/workspace/gone")
    s.fs.rm("/workspace/gone", recursive=True)
    refused(404, "not_found", s.fs.stat, "/workspace/gone")
    refused(404, "not_found", s.fs.rm, "/workspace/gone")
    equal(s.fs.rm("/workspace/gone", recursive=True).path, "/workspace/gone", "what is not there")


@check
def stat_tells_files_folders_and_links_apart(s):
    s.fs.write_text("/workspace/stat.txt", "1234567")
    s.exec("ln", "-s", "stat.txt", "stat-link", workdir="/workspace")
    s.exec("ln", "-s", "nowhere", "stat-broken", workdir="/workspace")
    stat = s.fs.stat("/workspace/stat.txt")
    equal((stat.type, stat.size, stat.mode, stat.symlink_target), ("file", 7, "0644", None), "file")
    if not isinstance(stat.uid, int) or not isinstance(stat.gid, int) or stat.mtime is None:
        raise AssertionError("uid, gid or mtime is missing")
    for name, target in (("stat-link", "stat.txt"), ("stat-broken", "nowhere")):
        stat = s.fs.stat("/workspace/" + name)
        equal((stat.type, stat.symlink_target), ("symlink", target), name)
    equal(s.fs.stat("/").type, "dir", "type of the root")


@check
def files_are_uploaded_and_downloaded_in_chunks(s):
    chunk = 64 * 1024
    for size in (0, 1, chunk, 2 * chunk, 3 * chunk + 17):
        source, back = s.folder / "source", s.folder / "made" / "back"
        data = os.urandom(size)
        source.write_bytes(data)
        path = "/workspace/upload-{}".format(size)
        written = s.fs.upload_file(source, path, mode=0o600)
        equal((written.path, written.bytes_written, written.created), (path, size, True), "upload")
        equal((s.fs.stat(path).size, s.fs.stat(path).mode), (size, "0600"), "size, mode")
        s.fs.download_file(path, back)
        equal(hashlib.sha256(back.read_bytes()).digest(), hashlib.sha256(data).digest(), "digest")
    # Again, over a longer file.
    source.write_bytes(b"short")
    equal(s.fs.upload_file(source, path).created, False, "created")
    equal(s.fs.read_bytes(path), b"short", "bytes")


@check
def what_cannot_be_read_or_written_is_told(s):
    told("/workspace/no-such", s.fs.read, "/workspace/no-such")
    told("/workspace", s.fs.read_bytes, "/workspace")
    told("/workspace", s.fs.write, "/workspace", b"")
    told("/workspace/no/parent", s.fs.write, "/workspace/no/parent", b"")
    told("/workspace/no-such", s.fs.write, "/workspace/no-such", b"", create=False)
    told("/workspace/no-such", s.fs.download_file, "/workspace/no-such", s.folder / "never")
    equal((s.folder / "never").exists(), False, "the local file exists")
    refused(404, "not_found", s.fs.stat, "/workspace/no-such")
    # The client hides the statuses of these.
    table = [
        ("GET", "fs/read?path=/workspace/no-such", 404, "not_found"),
        ("GET", "fs/read?path=/workspace", 409, "conflict"),
        ("POST", "fs/write?path=/workspace", 409, "conflict"),
        ("POST", "fs/write?path=/workspace/no/parent", 404, "not_found"),
        ("POST", "fs/write?path=/workspace/no-such&create=false", 404, "not_found"),
        ("POST", "fs/write?path=/workspace/x&mode=0999", 400, "invalid_request"),
        ("POST", "fs/write?path=/workspace/x&append=1", 400, "invalid_request"),
        ("GET", "fs/read?path=", 400, "invalid_request"),
        ("GET", "fs/stat?path=/" + "x" * 4096, 400, "invalid_request"),
        ("GET", "no-such-route", 404, "not_found"),
        ("PUT", "fs/write?path=/workspace/x", 404, "not_found"),
    ]
    for method, subpath, status, code in table:
        answer = s.raw(method, subpath)
        equal((answer.status_code, answer.json()["error"]["code"]), (status, code), method + " " + subpath[:60])


@check
def a_body_beyond_the_limit_is_refused(s):
    answer = s.raw("POST", "fs/write?path=/workspace/large", data=b"x" * (16 * MIB + 1))
    equal((answer.status_code, answer.json()["error"]["code"]), (413, "payload_too_large"), "answer")
    refused(404, "not_found", s.fs.stat, "/workspace/large")
    equal(s.fs.write("/workspace/large", b"x" * (16 * MIB)).bytes_written, 16 * MIB, "bytes_written")


# ------------------------------------------------------------------------------------ the end


@check
def a_wrong_token_and_an_unknown_run_are_refused(s):
    for call in (s.run_client(s.run.run_uuid, "another-token").refresh_data,):
        try:
            call()
        except ApiException as error:
            equal(error.status, 401, "status of the control plane")
        else:
            raise AssertionError("a wrong token was taken")
    status = s.raw("GET", "ping", token="another-token").status_code
    if status not in (401, 403):
        raise AssertionError("the gateway answers a wrong token with {}".format(status))
    try:
        s.run_client("0123456789abcdef0123456789abcdef").refresh_data()
    except ApiException as error:
        equal(error.status, 404, "status of an unknown run")
        equal(json.loads(error.body)["detail"], "No Run matches the given query.", "detail")
    else:
        raise AssertionError("an unknown run was found")


@check
def a_stream_tells_output_as_it_comes_and_how_it_ended(s):
    begun = time.monotonic()
    script = "printf 'a\\303'; sleep 1; printf '\\251b'; echo problem >&2; exit 4"
    events, early = [], None
    for event in s.client.process.exec_stream(["sh", "-c", script], stdin="x", workdir="/tmp"):
        events.append(event)
        if event["type"] == "stdout" and early is None:
            early = time.monotonic() - begun
    equal((events[0]["type"], events[-1]["type"]), ("start", "execution_complete"), "first and last")
    text = {name: "".join(e["text"] for e in events if e["type"] == name) for name in ("stdout", "stderr")}
    equal(text, {"stdout": "a\u00e9b", "stderr": "problem\n"}, "output")
    offsets = [e["offset"] for e in events if e["type"] == "stdout"]
    equal(offsets[-1], 4, "last offset, in bytes")
    equal((events[-1]["exit_code"], events[-1]["timed_out"]), (4, False), "end")
    if early is None or early > 0.9:
        raise AssertionError("the first output came after {}".format(early))


@check
def a_background_command_is_found_by_its_tag_read_in_pages_and_deleted(s):
    process = s.client.process
    started = process.exec_bg(["sh", "-c", "printf 0123456789; sleep 0.3; exit 3"], tag="by-tag")
    found = process.list(tag="by-tag").execs
    equal([entry.exec_id for entry in found], [started.id], "found by tag")
    try:
        process.exec_bg(["true"], tag="by-tag")
    except ApiException as error:
        equal(error.status, 409, "status of a tag that is taken")
    else:
        raise AssertionError("a tag was taken twice")
    status = started.wait(timeout=15, interval=0.05)
    equal((status.state, status.exit_code, status.stdout_bytes), ("exited", 3, 10), "status")
    first = started.logs(stream="stdout", offset=0, max_bytes=4)
    equal((first.data, first.next_offset, first.eof), ("0123", 4, False), "first page")
    rest = started.logs(stream="stdout", offset=4)
    equal((rest.data, rest.next_offset, rest.eof), ("456789", 10, True), "second page")
    started.delete()
    equal(process.list(tag="by-tag").execs, [], "after the delete")


@check
def logs_are_followed_and_a_signal_ends_a_command(s):
    process = s.client.process
    counting = process.exec_bg(["sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.2; done"])
    equal("".join(counting.iter_stdout(timeout=15, interval=0.05)), "1\n2\n3\n", "followed")
    counting.delete()
    sleeping = process.exec_bg(["sleep", "60"])
    sleeping.signal("SIGTERM")
    status = sleeping.wait(timeout=10, interval=0.05)
    equal((status.state, status.signal), ("signaled", "SIGTERM"), "after a signal")
    sleeping.delete()


@check
def a_terminal_shows_what_is_typed_and_is_attached_again(s):
    pty = s.client.pty
    session = pty.create(command=["sh"], env={"PS1": "> "}, workdir="/", cols=100, rows=30)
    with pty.attach(session.pty_id) as socket:
        socket.send_stdin(b"stty size; echo mark-$((40+2))\n")
        equal("30 100" in shown(socket, b"mark-42").decode(), True, "size and mark")
    with pty.attach(session.pty_id, replay_bytes=4096) as socket:
        shown(socket, b"mark-42")
        socket.send_stdin(b"exit 7\n")
        while True:
            frame = socket.recv()
            if isinstance(frame, dict) and frame.get("type") == "exited":
                equal(frame["exit_code"], 7, "exit code")
                break
    equal(pty.get(session.pty_id).state, "exited", "state")
    pty.delete(session.pty_id)


def shown(socket, wanted):
    """What a terminal shows, up to `wanted`."""
    output = b""
    end = time.monotonic() + 10
    while wanted not in output:
        if time.monotonic() > end:
            raise AssertionError("no {!r} in {!r}".format(wanted, output))
        frame = socket.recv()
        output += frame if isinstance(frame, bytes) else b""
    return output


@check
def a_stopped_run_is_over(s):
    s.run.stop()
    s.run.wait_for_condition()
    status, conditions = s.run.get_statuses()
    equal(status, "stopped", "status")
    kinds = [str(condition.type) for condition in conditions]
    equal(kinds[-2:], ["stopping", "stopped"], "last conditions")
    try:
        s.client.ping()
    except ApiException as error:
        equal(error.status, 502, "status of a ping")
    else:
        raise AssertionError("its service answers")


def main():
    parent.end_with_parent()
    sandbox = Sandbox(*sys.argv[1:5])
    for function in CHECKS:
        detail = ""
        try:
            function(sandbox)
        except Exception as error:
            detail = "{}: {}".format(type(error).__name__, error)
        line = {"check": function.__name__, "ok": not detail, "detail": detail}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
