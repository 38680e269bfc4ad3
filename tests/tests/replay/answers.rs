//! Which answer each case gets, by the wire document.

/// An answer, as far as it can be known before.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Want {
    /// A page of the gateway, which is HTML.
    Page(u16),
    /// The error envelope of the daemon.
    Refused(u16, &'static str),
    /// A refusal of the control plane.
    Detail(u16),
    /// No HTTP at all: refused by whatever reads the request line.
    Malformed,
    Namespace,
    Ping,
    /// A one-shot exec that exits with 0, by its standard output.
    Exec(&'static str),
    /// The same with an output that depends on the machine.
    ExecOfAnything,
    /// The events of an exec that exits with 0, by its standard output.
    Stream(&'static str),
    Started,
    Execs(usize),
    /// A background exec, by its state.
    Status(&'static str),
    /// A page of the last output of an exec, by its text and whether it is the last one.
    Logs(&'static str, bool),
    /// 204 without a body.
    Nothing,
    /// A page of a file, by its text and whether it reaches the end.
    Bytes(&'static str, bool),
    Written,
    /// The names in a directory.
    Entries(&'static [&'static str]),
    /// The path of what was made or removed.
    Done,
    Stat,
    PtyCreated,
    Ptys(usize),
    Pty,
    /// An upgrade, and the frame that comes first.
    Attached,
    Run,
}

use Want::{
    Attached, Bytes, Detail, Done, Entries, Exec, ExecOfAnything, Execs, Logs, Malformed,
    Namespace, Nothing, Page, Ping, Pty, PtyCreated, Ptys, Refused, Run, Started, Stat, Status,
    Stream, Written,
};

const INVALID: Want = Refused(400, "invalid_request");
const NO_FILE: Want = Refused(404, "not_found");
const WHOLE: Want = Bytes("0123456789", true);

/// Cases that the recording server answered and this service does not, or not in that way.
pub(crate) const NOT_AS_RECORDED: [(&str, &str); 7] = [
    (
        "auth.no_token",
        "this service wants its token, so it is a page with 401",
    ),
    (
        "auth.no_token.raw",
        "this service wants its token, so it is a page with 401",
    ),
    (
        "auth.internal_client",
        "this service knows one token and no internal one, so it is a page with 403",
    ),
    (
        "host.base_path",
        "a base path belongs to a proxy in front; here nothing is below it: 404",
    ),
    (
        "host.base_path.raw",
        "a base path belongs to a proxy in front; here nothing is below it: 404",
    ),
    (
        "url.odd_pty_id.ws",
        "a space in the request line: no server can read it, 400",
    ),
    (
        "ssh.tunnel",
        "the document calls the tunnel optional, and it is not built: 404 with the envelope",
    ),
];

/// A name that ends in `*` is a beginning. The blocking and the async client send the same, so the
/// `.async` in a name is left out.
const TABLE: &[(&str, Want)] = &[
    ("namespace.first_call#1", Namespace),
    ("namespace.first_call#2", Ping),
    ("namespace.first_call#3", Ping),
    ("namespace.get_namespace", Namespace),
    ("ping", Ping),
    ("auth.no_token", Page(401)),
    ("auth.no_token.raw", Page(401)),
    ("auth.type.Token", Ping),
    ("auth.type.InternalToken", Ping),
    ("auth.type.EphemeralToken", Ping),
    ("auth.type.Bearer", Ping),
    // These read `/a`, which no sandbox has: the daemon says so, hence the caller was let in.
    ("auth.type.Token.raw", NO_FILE),
    ("auth.type.InternalToken.raw", NO_FILE),
    ("auth.type.EphemeralToken.raw", NO_FILE),
    ("auth.type.Bearer.raw", NO_FILE),
    ("auth.service_header", Ping),
    ("auth.service_header.raw", NO_FILE),
    ("auth.service_header.ws", Attached),
    ("auth.internal_client", Page(403)),
    ("auth.internal_client.raw", NO_FILE),
    ("host.trailing_slash", Ping),
    ("host.base_path", Detail(404)),
    ("host.base_path.raw", Detail(404)),
    ("host.no_scheme.raw", NO_FILE),
    ("url.odd_ids", Page(404)),
    ("url.odd_ids.raw", Page(404)),
    ("url.odd_exec_id", Refused(404, "not_found")),
    ("url.odd_pty_id.ws", Malformed),
    ("exec.minimal", Exec("")),
    ("exec.tuple_generator", Exec("hi\n")),
    ("exec.all", Exec("héllo")),
    ("exec.stdin_bytes", Exec("\0\u{fffd}\u{fffd}\n")),
    ("exec.stdin_bytearray", Exec("x")),
    ("exec.stdin_empty_str", Exec("")),
    ("exec.stdin_empty_bytes", Exec("")),
    ("exec.env_empty", ExecOfAnything),
    ("exec.timeout_zero", Exec("")),
    ("exec.timeout_negative", INVALID),
    ("exec.workdir_empty", Exec("")),
    // The last argument begins with NUL.
    ("exec.unicode_args", INVALID),
    ("exec_stream.minimal", Stream("")),
    ("exec_stream.all", Stream("x")),
    ("exec_bg.minimal", Started),
    ("exec_bg.all", Started),
    ("exec_bg.tag_empty", Started),
    ("exec_bg.list", Execs(1)),
    ("exec_bg.list_tag", Execs(1)),
    ("exec_bg.list_tag_odd", INVALID),
    ("exec_bg.list_tag_empty", Execs(1)),
    ("exec_bg.get", Status("exited")),
    ("exec_bg.logs.default", Logs("0123456789", true)),
    ("exec_bg.logs.all", Logs("fghij", true)),
    ("exec_bg.logs.zero", INVALID),
    ("exec_bg.signal", Nothing),
    ("exec_bg.delete", Nothing),
    ("exec_bg.handle.stdout#1", Started),
    ("exec_bg.handle.stdout#2", Logs("0123456789", true)),
    ("exec_bg.handle.stderr_range#1", Started),
    ("exec_bg.handle.stderr_range#2", Logs("defg", false)),
    ("exec_bg.handle.output#1", Started),
    ("exec_bg.handle.output#2", Logs("0123456789", true)),
    ("exec_bg.handle.output#3", Logs("abcdefghij", true)),
    ("exec_bg.handle.kill#1", Started),
    ("exec_bg.handle.kill#2", Nothing),
    ("exec_bg.handle.wait#1", Started),
    ("exec_bg.handle.wait#2", Status("exited")),
    ("exec_bg.handle.iter_logs#1", Started),
    ("exec_bg.handle.iter_logs#2", Logs("0123", false)),
    ("exec_bg.handle.iter_logs#3", Logs("4567", false)),
    ("exec_bg.handle.iter_logs#4", Logs("89", true)),
    ("fs.read.default", WHOLE),
    ("fs.read.range", Bytes("234", false)),
    ("fs.read.length_zero", INVALID),
    ("fs.read.negative_offset", INVALID),
    ("fs.read.odd_path", WHOLE),
    ("fs.read_bytes", WHOLE),
    ("fs.read_bytes.paged#1", Bytes("0123", false)),
    ("fs.read_bytes.paged#2", Bytes("4567", false)),
    ("fs.read_bytes.paged#3", Bytes("89", true)),
    ("fs.read_bytes.length_paged#1", Bytes("1234", false)),
    ("fs.read_bytes.length_paged#2", Bytes("56", false)),
    ("fs.read_text#1", Bytes("01234567", false)),
    ("fs.read_text#2", Bytes("89", true)),
    ("fs.download_file#1", Bytes("0123", false)),
    ("fs.download_file#2", Bytes("4567", false)),
    ("fs.download_file#3", Bytes("89", true)),
    ("fs.write*", Written),
    ("fs.upload_file*", Written),
    ("fs.ls.default", Entries(&["a", "d"])),
    ("fs.ls.all", Entries(&["a", "d", "d/x"])),
    ("fs.ls.false_zero", INVALID),
    ("fs.ls.odd_path", Entries(&["inside"])),
    ("fs.mkdir.default", Done),
    ("fs.mkdir.all", Done),
    ("fs.rm.default", Done),
    ("fs.rm.recursive", Done),
    ("fs.rm.odd_path", Done),
    ("fs.stat", Stat),
    ("fs.stat.odd_path", Stat),
    ("pty.create.default", PtyCreated),
    ("pty.create.all", PtyCreated),
    ("pty.create.no_size", PtyCreated),
    ("pty.list", Ptys(1)),
    ("pty.list_tag", Ptys(1)),
    ("pty.get", Pty),
    ("pty.resize", Nothing),
    ("pty.signal", Nothing),
    ("pty.delete", Nothing),
    ("pty.attach.default", Attached),
    ("pty.attach.replay", Attached),
    ("pty.attach.replay_zero", Attached),
    ("pty.attach.session#1", Attached),
    ("pty.attach.session#2", Nothing),
    ("pty.attach.session#3", Nothing),
    ("pty.attach.odd_id", Refused(404, "not_found")),
    ("create.then_ping#2", Ping),
    ("create.*", Run),
    ("ssh.tunnel", Refused(404, "not_found")),
    ("cli.ping#2", Ping),
    ("cli.exec#2", Exec("a b\n")),
    ("cli.exec_stream#2", Stream("")),
    ("cli.exec_detach#2", Started),
    ("cli.logs#2", Logs("defgh", false)),
    ("cli.ls#2", Entries(&["a", "d", "d/x"])),
    ("cli.ls_default#2", Entries(&["a", "d"])),
    ("cli.upload#2", Written),
    ("cli.download#2", WHOLE),
    // Each command asks for the namespace first.
    ("cli.*", Namespace),
];

/// The answer to `case`, which has to be in the table.
pub(crate) fn wanted(case: &str) -> Want {
    let case = case.replace(".async", "");
    let fits = |name: &str| match name.strip_suffix('*') {
        Some(beginning) => case.starts_with(beginning),
        None => case == name,
    };
    let found = TABLE.iter().find(|(name, _)| fits(name));
    found
        .unwrap_or_else(|| panic!("{case} is not in the table"))
        .1
}
