//! Benchmarks; see `benches/`. `cargo bench -p polyaxon-benches` prints the figures.

#![forbid(unsafe_code)]
