//! Prints which recorded requests of the Python client ours makes too, and which not, and why.

use std::io::Write as _;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let report = polyaxon_tests::golden::report().await;
    write!(std::io::stdout(), "{report}")?;
    match report.wrong().as_slice() {
        [] => Ok(()),
        wrong => Err(format!("not the same: {}", wrong.join(", ")).into()),
    }
}
