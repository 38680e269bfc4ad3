//! What it costs to read what services send, without any network.
//!
//! `cargo bench -p polyaxon-benches --bench decoders`

#![expect(clippy::unwrap_used, reason = "a benchmark; a failure ends it")]

use std::hint::black_box;

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use polyaxon_client::transport::SseDecoder;
use polyaxon_sandbox::process::ExecEvent;
use polyaxon_sandbox::pty::PtyEvent;
use serde_json::json;

/// As a body comes from a socket.
const PIECE: usize = 16 << 10;

/// Output as programs write it: lines of 64 bytes.
fn output(size: usize) -> String {
    let line = format!("{}\n", "x".repeat(63));
    line.chars().cycle().take(size).collect()
}

fn event(size: usize) -> String {
    let data = json!({"text": output(size), "offset": size});
    format!("event: stdout\ndata: {data}\n\n")
}

fn pieces(text: &str) -> Vec<Bytes> {
    text.as_bytes()
        .chunks(PIECE)
        .map(Bytes::copy_from_slice)
        .collect()
}

fn decode(pieces: &[Bytes]) -> usize {
    let mut decoder = SseDecoder::with_limit(128 << 20);
    let mut events = 0;
    for piece in pieces {
        decoder.push(piece.clone());
        while let Some(event) = decoder.next_event().unwrap() {
            events += 1;
            black_box(event);
        }
    }
    events
}

fn sse(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("SSE decoder, events of");
    for (name, size, count) in [
        ("32 B", 32, 16_384),
        ("4 KiB", 4 << 10, 1024),
        ("64 KiB", 64 << 10, 64),
        ("1 MiB", 1 << 20, 4),
        ("16 MiB", 16 << 20, 1),
        ("64 MiB", 64 << 20, 1),
    ] {
        let text = event(size).repeat(count);
        let pieces = pieces(&text);
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.sample_size(10);
        group.bench_with_input(
            BenchmarkId::from_parameter(name),
            &pieces,
            |bench, pieces| {
                bench.iter(|| assert_eq!(decode(pieces), count));
            },
        );
    }
    group.finish();
}

fn bodies(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("exec event, text of");
    for (name, size) in [
        ("32 B", 32),
        ("4 KiB", 4 << 10),
        ("64 KiB", 64 << 10),
        ("1 MiB", 1 << 20),
    ] {
        let data = json!({"text": output(size), "offset": size}).to_string();
        group.throughput(Throughput::Bytes(data.len() as u64));
        group.bench_with_input(BenchmarkId::from_parameter(name), &data, |bench, data| {
            bench.iter(|| ExecEvent::read("stdout", data).unwrap());
        });
    }
    group.finish();
    let frame = r#"{"type":"attached","pty_id":"p","pid":7,"state":"running","cols":80,"rows":24}"#;
    criterion.bench_function("pty frame", |bench| {
        bench.iter(|| PtyEvent::parse(black_box(frame)).unwrap());
    });
}

criterion_group!(benches, sse, bodies);
criterion_main!(benches);
