//! The life of a sandbox, as far as its service and its platform both take part.

use polyaxon_client::runs::{RunStatus, ServiceRoute};
use polyaxon_sandbox::{Find, SandboxClient};

/// A sandbox is found among those of its project, and is the one that is connected to.
pub async fn a_sandbox_is_listed_among_those_of_its_project(sandbox: &SandboxClient) {
    let sandboxes = sandbox.sandboxes();
    let listed = sandboxes.list(&Find::any()).await.unwrap();
    let own = listed.iter().find(|run| run.uuid == sandbox.run_uuid());
    assert_eq!(own.unwrap().status, Some(RunStatus::Running));
    let run = sandbox.runs().get(sandbox.run_uuid()).await.unwrap();
    if let Some(id) = run
        .meta_info
        .as_ref()
        .and_then(|meta| meta["launch_id"].as_str())
    {
        let again = sandboxes.connect(&Find::any().launch_id(id)).await.unwrap();
        assert_eq!(again.run_uuid(), sandbox.run_uuid());
        assert_eq!(again.ping().await.unwrap().status, "ok");
    }
}

/// The URL of a port is made of what the run is.
pub async fn the_url_of_a_port_names_the_run(sandbox: &SandboxClient) {
    let url = sandbox
        .service_url(8888, ServiceRoute::Rewrite)
        .await
        .unwrap();
    let namespace = sandbox.runs().namespace(sandbox.run_uuid()).await.unwrap();
    let (project, run) = (sandbox.project(), sandbox.run_uuid());
    let want = format!("/rewrite-services/v1/{namespace}/{project}/runs/{run}/8888");
    assert!(url.path().ends_with(&want), "{url}");
}
