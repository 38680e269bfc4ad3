use std::time::Duration;

use http::Method;
use polyaxon_client::runs::{CreateRun, ListRuns, RunQuery, RunStatus, Wait};
use polyaxon_client::{Client, Effect, ProjectRef, RunUuid};
use polyaxon_local::{Fault, FaultRule, LocalServer};
use polyaxon_sandbox::{
    Error, Evidence, Find, Lookup, Resolution, SandboxClient, SandboxSpec, Sandboxes,
};
use polyaxon_tests::local::client_of;
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(20);

async fn start() -> (LocalServer, Client, ProjectRef) {
    let server = LocalServer::start().await.unwrap();
    let (client, project) = (client_of(&server), server.project().clone());
    (server, client, project)
}

fn ids(runs: &[polyaxon_client::runs::Run]) -> Vec<RunUuid> {
    runs.iter().map(|run| run.uuid).collect()
}

#[tokio::test]
async fn a_sandbox_is_connected_to_by_name_or_tag_and_a_choice_is_left_to_the_caller() {
    let (_server, client, project) = start().await;
    let spec = SandboxSpec::image("i").name("repair").tag("nightly");
    let first = SandboxClient::launch(&client, &project, &spec)
        .await
        .unwrap();
    let sandboxes = Sandboxes::of(&client, &project);
    let again = sandboxes.connect(&Find::named("repair")).await.unwrap();
    assert_eq!(again.run_uuid(), first.run_uuid());
    assert_eq!(again.ping().await.unwrap().status, "ok");

    let second = SandboxClient::launch(&client, &project, &spec)
        .await
        .unwrap();
    let both = [second.run_uuid(), first.run_uuid()];
    for find in [Find::named("repair"), Find::tagged("nightly")] {
        let error = sandboxes.connect(&find).await.unwrap_err();
        let text = error.to_string();
        assert!(
            both.iter().all(|run| text.contains(&run.to_string())),
            "{text}"
        );
        assert_eq!(error.effect(), Effect::NotApplied);
        let Error::Ambiguous(ambiguous) = error else {
            panic!("{error:?}");
        };
        assert_eq!(ids(&ambiguous.candidates), both);
    }
    first.stop_and_wait(LIMIT).await.unwrap();
    let left = sandboxes.connect(&Find::named("repair")).await.unwrap();
    assert_eq!(left.run_uuid(), second.run_uuid());
    let with_ended = sandboxes
        .list(&Find::named("repair").with_ended())
        .await
        .unwrap();
    assert_eq!(ids(&with_ended), both);

    for find in [
        Find::named("repai"),
        Find::tagged("night"),
        Find::any().launch_id("x"),
    ] {
        let error = sandboxes.connect(&find).await.unwrap_err();
        assert!(matches!(error, Error::NoSandbox { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn what_is_left_over_is_stopped_and_nothing_else() {
    let (server, client, project) = start().await;
    let launch = async |tag: &str| {
        let spec = SandboxSpec::image("i").tag(tag);
        SandboxClient::launch(&client, &project, &spec)
            .await
            .unwrap()
    };
    let (old, other) = (launch("old").await, launch("other").await);
    let runs = client.runs(&project);
    // Jobs are not asked for, and what is no sandbox is not stopped.
    let job =
        json!({"run": {"kind": "job", "container": {"image": "i", "command": ["sleep", "60"]}}});
    let job = runs
        .create(&CreateRun::operation(&job).tag("old"))
        .await
        .unwrap();
    let sandboxes = Sandboxes::of(&client, &project);

    let error = sandboxes.stop(&Find::any()).await.unwrap_err();
    assert_eq!(error.effect(), Effect::NotApplied);
    let young = Find::tagged("old").older_than(Duration::from_secs(3600));
    assert_eq!(sandboxes.stop(&young).await.unwrap().stopped, []);

    let report = sandboxes.stop(&Find::tagged("old")).await.unwrap();
    assert_eq!(
        (ids(&report.stopped), report.failed.len()),
        (vec![old.run_uuid()], 0)
    );
    let ended = runs.wait_until_final(old.run_uuid(), LIMIT).await.unwrap();
    assert_eq!(ended.status, RunStatus::Stopped);
    assert_eq!(other.ping().await.unwrap().status, "ok");
    assert!(!runs.get(job.uuid).await.unwrap().status.unwrap().is_final());

    // One that cannot be stopped does not keep the others from it.
    let third = launch("other").await;
    let refused = FaultRule::new(Fault::BadGateway).path(format!("*/{}/stop", other.run_uuid()));
    server.faults().add(refused);
    let report = sandboxes.stop(&Find::tagged("other")).await.unwrap();
    assert_eq!(ids(&report.stopped), [third.run_uuid()]);
    let failed: Vec<RunUuid> = report.failed.iter().map(|(run, _)| run.uuid).collect();
    assert_eq!(failed, [other.run_uuid()]);
}

#[tokio::test]
async fn a_run_whose_answer_was_lost_is_found_by_its_launch_id() {
    let (server, client, project) = start().await;
    for fault in [Fault::Close, Fault::BadGateway] {
        let lost = FaultRule::new(fault).path("*/runs").method(Method::POST);
        server.faults().add(lost.times(1).carried_out());
        let spec = SandboxSpec::image("i");
        let sandbox = SandboxClient::launch(&client, &project, &spec)
            .await
            .unwrap();
        assert_eq!(sandbox.ping().await.unwrap().status, "ok");
    }
    assert_eq!(server.faults().applied(), 2);
    let count = client
        .runs(&project)
        .list(&ListRuns::new())
        .await
        .unwrap()
        .count;
    assert_eq!(count, 2, "a run was created twice, or not at all");
}

#[tokio::test]
async fn a_create_that_nobody_knows_of_says_what_to_look_for() {
    let (server, client, project) = start().await;
    let never = FaultRule::new(Fault::Close)
        .path("*/runs")
        .method(Method::POST);
    server.faults().add(never.times(2));
    let plain = SandboxSpec::image("i");
    let error = SandboxClient::create(&client, &project, &plain)
        .await
        .unwrap_err();
    assert_eq!((error.effect(), error.lookup()), (Effect::Unknown, None));

    let spec = plain.launch_id("repair-7");
    let error = SandboxClient::create(&client, &project, &spec)
        .await
        .unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
    let lookup = error.lookup().unwrap();
    assert!(matches!(&lookup, Lookup::CreatedSandbox { launch_id, .. } if launch_id == "repair-7"));
    let sandboxes = Sandboxes::of(&client, &project);
    assert_eq!(sandboxes.created("repair-7").await.unwrap(), None);

    let pending = SandboxClient::create(&client, &project, &spec)
        .await
        .unwrap();
    let run = pending.run_uuid();
    assert_eq!(
        sandboxes.created("repair-7").await.unwrap().unwrap().uuid,
        run
    );
    let found = pending.sandbox().look_up(&lookup).await.unwrap();
    assert!(
        matches!(&found, Resolution::Applied { evidence: Evidence::Run(found), .. } if *found == run),
        "{found:?}"
    );
    // Also when it has ended.
    pending.sandbox().stop_and_wait(LIMIT).await.unwrap();
    assert_eq!(
        sandboxes.created("repair-7").await.unwrap().unwrap().uuid,
        run
    );
}

#[tokio::test]
async fn a_run_that_is_still_being_created_is_waited_for_some_seconds() {
    let (_server, client, project) = start().await;
    let sandboxes = Sandboxes::of(&client, &project);
    let spec = SandboxSpec::image("i").launch_id("late");
    let create = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        SandboxClient::create(&client, &project, &spec).await
    };
    let (found, created) = tokio::join!(sandboxes.look_for("late"), create);
    assert_eq!(found.unwrap().unwrap().uuid, created.unwrap().run_uuid());
    let begun = std::time::Instant::now();
    assert_eq!(sandboxes.look_for("never").await.unwrap(), None);
    assert!(begun.elapsed() >= Duration::from_secs(5));
}

#[tokio::test]
async fn a_list_has_all_pages_and_the_clock_of_the_platform() {
    let (_server, client, project) = start().await;
    let runs = client.runs(&project);
    let mut created = Vec::new();
    for number in 0..7 {
        let run = CreateRun::unmanaged().name(format!("run-{number}"));
        created.insert(0, runs.create(&run).await.unwrap().uuid);
    }
    let all = runs.all(&ListRuns::new().limit(3)).await.unwrap();
    assert_eq!((ids(&all.runs), all.count), (created.clone(), 7));
    let page = runs
        .list(&ListRuns::new().sort("created_at").limit(2).offset(1))
        .await
        .unwrap();
    assert_eq!(ids(&page.runs), [created[5], created[4]]);
    assert!(page.answered_at.is_some());
    let one = runs
        .list(
            &ListRuns::new()
                .matching(&RunQuery::new().name().eq("run-3"))
                .unwrap(),
        )
        .await
        .unwrap();
    assert_eq!(ids(&one.runs), [created[3]]);
    let error = runs
        .list(&ListRuns::new().query("no such"))
        .await
        .unwrap_err();
    assert_eq!(error.status().map(|status| status.as_u16()), Some(400));
    let wait = Wait::up_to(Duration::ZERO);
    runs.wait_for(created[0], &RunStatus::Running, wait)
        .await
        .unwrap_err();
}
