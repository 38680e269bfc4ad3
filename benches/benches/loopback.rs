//! Calls of the sandbox client against the local service, each beside the same HTTP exchange made
//! by hand: what is between the two is what the client costs.
//!
//! `cargo bench -p polyaxon-benches`

#![expect(clippy::unwrap_used, reason = "a benchmark; a failure ends it")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use polyaxon_client::{Client, Config, Token};
use polyaxon_local::{Isolation, LocalServer};
use polyaxon_sandbox::{Exec, SandboxClient, SandboxSpec};
use serde_json::json;
use tokio::runtime::Runtime;

const MIB: u64 = 1 << 20;
static PAGE: [u8; 1 << 20] = [b'x'; 1 << 20];

async fn launch(server: &LocalServer) -> SandboxClient {
    let token = Token::new(server.token()).unwrap();
    let config = Config::explicit(server.url()).unwrap().token(token);
    let client = Client::new(&config).unwrap();
    let spec = SandboxSpec::image("bench");
    SandboxClient::launch(&client, server.project(), &spec)
        .await
        .unwrap()
}

fn loopback(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(LocalServer::start()).unwrap();
    let sandbox = runtime.block_on(launch(&server));
    runtime
        .block_on(sandbox.fs().write("/tmp/page", &PAGE[..]))
        .unwrap();

    let raw = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .build()
        .unwrap();
    let (project, run) = (server.project(), sandbox.run_uuid());
    let base = format!("{}/sandbox/v1/polyaxon/{project}/runs/{run}", server.url());
    let token = format!("Token {}", server.token());

    let mut group = criterion.benchmark_group("exec /bin/true");
    let exec = Exec::new(["/bin/true"]);
    group.bench_function("client", |bench| {
        bench.iter(|| runtime.block_on(sandbox.process().exec(&exec)).unwrap());
    });
    group.bench_function("by hand", |bench| {
        let body = json!({"command": ["/bin/true"]});
        bench.iter(|| {
            let call = raw
                .post(format!("{base}/exec"))
                .header("authorization", &token)
                .json(&body);
            runtime.block_on(async { call.send().await.unwrap().bytes().await.unwrap() })
        });
    });

    // The same on a server without pods: what entering a pod adds.
    let mapped = LocalServer::builder().isolation(Isolation::None);
    let mapped = runtime.block_on(mapped.start()).unwrap();
    let other = runtime.block_on(launch(&mapped));
    group.bench_function("client, paths mapped instead of a pod", |bench| {
        bench.iter(|| runtime.block_on(other.process().exec(&exec)).unwrap());
    });
    group.finish();
    runtime.block_on(mapped.stop()).unwrap();

    let mut group = criterion.benchmark_group("read 1 MiB");
    group.throughput(Throughput::Bytes(MIB));
    group.bench_function("client", |bench| {
        bench.iter(|| {
            runtime
                .block_on(sandbox.fs().read_range("/tmp/page", 0, MIB))
                .unwrap()
        });
    });
    group.bench_function("by hand", |bench| {
        let url = format!("{base}/fs/read?path=/tmp/page&offset=0&length={MIB}");
        bench.iter(|| {
            let call = raw.get(&url).header("authorization", &token);
            let body =
                runtime.block_on(async { call.send().await.unwrap().bytes().await.unwrap() });
            assert_eq!(body.len() as u64, MIB);
        });
    });
    group.finish();
    runtime.block_on(server.stop()).unwrap();
}

criterion_group!(benches, loopback);
criterion_main!(benches);
