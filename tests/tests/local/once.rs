//! What may have been done is not done again.

use polyaxon_client::Effect;
use polyaxon_local::{Fault, FaultRule};
use polyaxon_sandbox::Exec;
use polyaxon_sandbox::process::{ExecState, Process};
use polyaxon_tests::local::LocalSandbox;
use tokio::time::{Duration, sleep};

#[tokio::test]
async fn a_command_whose_answer_is_lost_is_run_once_and_said_to_be_unknown() {
    let local = LocalSandbox::start().await;
    let process = local.sandbox.process();
    let counted = |name: &str| Exec::shell(format!("echo x >> {name}")).workdir("/tmp");
    let spoil = |fault| {
        let rule = FaultRule::new(fault).path("*/exec*").times(1);
        local.server.faults().add(rule.carried_out());
    };
    for (index, fault) in [
        Fault::BadGateway,
        Fault::Close,
        Fault::BadGateway,
        Fault::Close,
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("once-{index}");
        let exec = counted(&name);
        spoil(fault);
        let error = match index {
            0 | 1 => process.exec(&exec).await.unwrap_err(),
            _ => process.exec_stream(&exec).await.unwrap_err(),
        };
        assert_eq!(error.effect(), Effect::Unknown);
        // A command that has no name cannot be looked for.
        assert_eq!(error.lookup(), None);
        assert_eq!(ended(&process).await, index + 1, "{name}");
        let seen = local.sandbox.fs().read_text(format!("/tmp/{name}")).await;
        assert_eq!(seen.unwrap(), "x\n", "{name}");
    }
}

/// Waits until every command has ended, and says how many there were. The answer to a stream
/// begins with the command, so whoever lost it knows nothing of the end.
async fn ended(process: &Process) -> usize {
    loop {
        let execs = process.list().await.unwrap();
        if execs.iter().all(|exec| exec.state != ExecState::Running) {
            return execs.len();
        }
        sleep(Duration::from_millis(10)).await;
    }
}
