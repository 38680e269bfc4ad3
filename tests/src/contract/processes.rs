//! Processes: the command is executed as given, once, and how it ended is told exactly.

use std::time::{Duration, Instant};

use polyaxon_client::Effect;
use polyaxon_sandbox::process::{ExecResult, Signal, Termination};
use polyaxon_sandbox::{Exec, SandboxClient};

use super::cause;

/// Well above what a loaded machine takes, well below the `sleep 90` that must not be waited for,
/// and below the time limit that a command has by default.
const SOON: Duration = Duration::from_secs(20);

async fn run(sandbox: &SandboxClient, exec: Exec) -> ExecResult {
    sandbox.process().exec(&exec).await.unwrap()
}

/// Exit codes and signals arrive as they are.
pub async fn an_end_is_told_exactly(sandbox: &SandboxClient) {
    let table = [
        ("exit 0", Termination::Exited(0)),
        ("exit 1", Termination::Exited(1)),
        ("exit 124", Termination::Exited(124)),
        ("exit 255", Termination::Exited(255)),
        ("kill -9 $$", Termination::Signaled(Signal::Kill)),
        ("kill -TERM $$", Termination::Signaled(Signal::Term)),
        (
            "kill -SEGV $$",
            Termination::Signaled(Signal::Other("SIGSEGV".into())),
        ),
    ];
    for (line, want) in table {
        assert_eq!(
            run(sandbox, Exec::shell(line)).await.termination,
            want,
            "{line}"
        );
    }
}

/// Arguments reach the program as they were given; no shell splits or expands them.
pub async fn arguments_reach_the_program_untouched(sandbox: &SandboxClient) {
    let odd = ["a b", "$HOME", "*", "'\"", "", "日本", "new\nline", "-n"];
    let exec = Exec::new(["printf", "[%s]"].into_iter().chain(odd));
    let want: String = odd.iter().map(|argument| format!("[{argument}]")).collect();
    assert_eq!(run(sandbox, exec).await.stdout.text().unwrap(), want);
}

/// The environment is edited by name, and no name or value is interpreted.
pub async fn the_environment_is_edited(sandbox: &SandboxClient) {
    let exec = Exec::new(["env", "-0"])
        .env("A;touch pwn", "1")
        .env("a.b-c", "2")
        .env("É", "ü\n$(id)")
        .env("EMPTY", "")
        .env_remove("HOME");
    let result = run(sandbox, exec).await;
    let all: Vec<&str> = result.stdout.text().unwrap().split('\0').collect();
    for want in ["A;touch pwn=1", "a.b-c=2", "É=ü\n$(id)", "EMPTY="] {
        assert!(all.contains(&want), "{want:?} in {all:?}");
    }
    assert!(
        !all.iter().any(|entry| entry.starts_with("HOME=")),
        "{all:?}"
    );
}

/// The working directory is the one that was asked for, and has the files of the file API.
pub async fn the_working_directory_has_the_files(sandbox: &SandboxClient) {
    let fs = sandbox.fs();
    fs.mkdir("/tmp/contract-workdir").await.unwrap();
    fs.write("/tmp/contract-workdir/in", "from the file API")
        .await
        .unwrap();
    let exec =
        Exec::shell("cat in; printf 'from a command' > out").workdir("/tmp/contract-workdir");
    assert_eq!(
        run(sandbox, exec).await.stdout.text().unwrap(),
        "from the file API"
    );
    assert_eq!(
        fs.read_text("/tmp/contract-workdir/out").await.unwrap(),
        "from a command"
    );
}

/// Input is given as a whole; without any the command reads its end at once.
pub async fn input_is_given_and_closed(sandbox: &SandboxClient) {
    let started = Instant::now();
    assert_eq!(run(sandbox, Exec::new(["cat"])).await.stdout.bytes(), "");
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    let exec = Exec::new(["cat"]).stdin("héllo\n");
    assert_eq!(run(sandbox, exec).await.stdout.text().unwrap(), "héllo\n");
    let unread = Exec::new(["true"]).stdin(vec![b'x'; 1 << 20]);
    assert!(run(sandbox, unread).await.success());
}

/// Input, output and errors flow at once, however large.
pub async fn large_input_and_output_do_not_block_each_other(sandbox: &SandboxClient) {
    let exec = Exec::shell("head -c 1048576 /dev/zero | tr '\\0' e >&2; cat >/dev/null; echo done")
        .stdin(vec![b'i'; 4 << 20]);
    let result = run(sandbox, exec).await;
    assert_eq!(result.termination, Termination::Exited(0));
    assert_eq!(result.stdout.text().unwrap(), "done\n");
    assert_eq!(result.stderr.bytes().len(), 1 << 20);
}

/// What is more than the service keeps is cut, said, and never parsed.
pub async fn output_that_is_cut_says_so(sandbox: &SandboxClient) {
    let result = run(
        sandbox,
        Exec::shell("head -c 3000000 /dev/zero | tr '\\0' x"),
    )
    .await;
    assert_eq!(result.termination, Termination::Exited(0));
    assert!(result.stdout.is_truncated());
    assert!(result.stdout.bytes().iter().all(|&byte| byte == b'x'));
    let kept = result.stdout.bytes().len();
    assert_eq!(
        cause(&result.stdout.text().unwrap_err().into()),
        format!("the output was cut after {kept} bytes")
    );
}

/// At the time limit the command is killed, its children too, and what it had written is kept.
pub async fn a_time_limit_kills_the_whole_group(sandbox: &SandboxClient) {
    let line = "sleep 90 & echo $! > contract-child; echo before; sleep 90; echo after";
    // The first limit in which the command gets as far as to write something.
    let mut limit = Duration::from_millis(300);
    loop {
        let exec = Exec::shell(line).workdir("/tmp").timeout(limit);
        let started = Instant::now();
        let result = run(sandbox, exec).await;
        assert!(started.elapsed() < limit + SOON, "{:?}", started.elapsed());
        assert_eq!(result.termination, Termination::TimedOut);
        let receipt = result.receipt();
        assert_eq!(
            (receipt.exit_code, receipt.signal),
            (None, Some(Signal::Kill))
        );
        if result.stdout.text_lossy() == "before\n" {
            break;
        }
        limit *= 4;
        assert!(limit < SOON, "{:?}", result.stdout);
    }
    let alive = Exec::shell("kill -0 $(cat contract-child)").workdir("/tmp");
    let deadline = Instant::now() + SOON;
    while run(sandbox, alive.clone()).await.success() {
        assert!(Instant::now() < deadline, "the child lives");
    }
}

/// The exec ends with its process, not with what it leaves behind holding the output.
pub async fn an_exec_ends_when_its_process_ends(sandbox: &SandboxClient) {
    let started = Instant::now();
    let result = run(sandbox, Exec::shell("sleep 90 & echo STARTED")).await;
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    assert_eq!(result.stdout.text().unwrap(), "STARTED\n");
}

/// A command that cannot start was not carried out, and the error names it.
pub async fn a_command_that_cannot_start_is_not_applied(sandbox: &SandboxClient) {
    let missing = Exec::new(["no-such-program-7"]);
    let error = sandbox.process().exec(&missing).await.unwrap_err();
    assert_eq!(error.effect(), Effect::NotApplied);
    let text = cause(&error);
    assert!(
        text.contains("process.exec") && text.contains("no-such-program-7"),
        "{text}"
    );
    let nowhere = Exec::new(["true"]).workdir("/no/such/folder");
    let error = sandbox.process().exec(&nowhere).await.unwrap_err();
    assert_eq!(error.effect(), Effect::NotApplied);
    assert!(
        cause(&error).contains("/no/such/folder"),
        "{}",
        cause(&error)
    );
    let relative = Exec::new(["true"]).workdir("tmp");
    let text = cause(&sandbox.process().exec(&relative).await.unwrap_err());
    assert!(text.contains(r#"workdir: "tmp" is not absolute"#), "{text}");
    let nothing = Exec::new(Vec::<String>::new());
    let text = cause(&sandbox.process().exec(&nothing).await.unwrap_err());
    assert!(text.contains("command: is empty"), "{text}");
}
