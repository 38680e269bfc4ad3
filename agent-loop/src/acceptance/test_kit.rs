//! Runs a check in a place as the driver does.

use super::{Acceptance, Evidence, StageRun, Verdict};
use crate::machine::sources;
use crate::manifest::Tree;
use crate::path::RelPath;
use crate::test_kit::path;
use crate::workspace::{Capabilities, MemoryWorkspace, Precondition, Workspace as _};

/// The verdict of the check `name` on `tree`, each stage in an empty place beside `place`.
pub(super) async fn check(
    acceptance: &dyn Acceptance,
    name: &str,
    tree: &Tree,
    place: &MemoryWorkspace,
) -> Verdict {
    let plan = acceptance.plan(name).unwrap();
    let mut runs = Vec::new();
    for stage in &plan.stages {
        let id = "t-1.1.1".parse().unwrap();
        let place = place.fresh_dir(&id).await.unwrap();
        let files = sources(tree).filter(|(path, _)| stage.fixtures.get(path).is_none());
        for (path, file) in files.chain(stage.fixtures.iter()) {
            let path = RelPath::parse(&format!("work/{path}")).unwrap();
            place
                .put(&id, &path, file, Precondition::Absent)
                .await
                .unwrap();
        }
        let before = place.list().await.unwrap().below("work");
        let spec = stage.spec.clone().dir(path("work"));
        let receipt = place.exec(&id, &spec).await.unwrap();
        runs.push(StageRun::new(id, Capabilities::default(), before, receipt));
        let verdict = acceptance.judge(&Evidence::new(&plan, tree, &runs));
        if !matches!(verdict, Verdict::Pass { .. }) || runs.len() == plan.stages.len() {
            return verdict;
        }
    }
    Verdict::invalid("a plan without stages")
}
