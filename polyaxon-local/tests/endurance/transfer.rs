//! A large file up and down: what the service needs for it is a few pages, whatever its size.
//!
//! `POLYAXON_TRANSFER_MIB=1024` is the long form.

use reqwest::Method;

use crate::number;
use crate::program::{Program, reply};
use crate::watch::peak;

/// A page of an upload, and of a download.
const PAGE: usize = 8 << 20;
/// By how much the service may grow.
const MOST_KIB: u64 = 64 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_larger_than_the_memory_it_may_take_goes_up_and_down() {
    let mib = number("POLYAXON_TRANSFER_MIB", 160);
    let pages = usize::try_from(mib).unwrap() * (1 << 20) / PAGE;
    let program = Program::start().await;
    let client = &program.client;
    // Every page begins with its number.
    let mut page: Vec<u8> = (0..PAGE).map(|at| (at % 253).to_le_bytes()[0]).collect();
    let before = peak(program.id());
    for number in 0..pages {
        page[..8].copy_from_slice(&number.to_le_bytes());
        let how = match number {
            0 => "create=true&append=false",
            _ => "create=false&append=true",
        };
        let request = client.call(Method::POST, &format!("fs/write?path=/tmp/large&{how}"));
        let (status, answer) = reply(request.body(page.clone())).await;
        assert_eq!(
            (status.as_u16(), &answer["bytes_written"]),
            (200, &PAGE.into()),
            "{answer}"
        );
    }
    for number in 0..pages {
        page[..8].copy_from_slice(&number.to_le_bytes());
        let query = format!("path=/tmp/large&offset={}&length={PAGE}", number * PAGE);
        let response = client
            .call(Method::GET, &format!("fs/read?{query}"))
            .send()
            .await;
        let response = response.unwrap();
        assert_eq!(response.status(), 200);
        let eof = number + 1 == pages;
        assert_eq!(
            response.headers()["x-polyaxon-eof"],
            eof.to_string().as_str()
        );
        assert!(
            response.bytes().await.unwrap() == page,
            "page {number} is not the same"
        );
    }
    let after = peak(program.id());
    println!("transfer: {mib} MiB up and down, peak memory {before} to {after} KiB");
    assert!(after < before + MOST_KIB, "{before} to {after} KiB");
}
