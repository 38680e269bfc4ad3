//! Files.

use polyaxon_sandbox::fs::{Ls, Mkdir, Write};
use polyaxon_sandbox::{Error, FileMode, SandboxClient};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Made, NOT_WRITTEN, ODD};

const PATH: &str = "/tmp/a";

fn mode(bits: u32) -> FileMode {
    FileMode::new(bits).unwrap()
}

pub(super) async fn make(call: &str, sandbox: &SandboxClient) -> Result<Made, Error> {
    let fs = sandbox.fs();
    match call {
        "fs.read.default" => drop(fs.read_page(PATH, 0).await?),
        "fs.read.range" => drop(fs.read_range(PATH, 2, 3).await?),
        "fs.read.odd_path" => drop(fs.read_page(ODD, 0).await?),
        "fs.read.length_zero" => return Ok(Made::NotOffered("for no bytes nothing is asked")),
        "fs.read.negative_offset" => return Ok(Made::NotOffered("an offset is never below zero")),
        "fs.read_bytes" => read(sandbox, 0, None, 65536).await,
        "fs.read_bytes.paged" | "fs.download_file" => read(sandbox, 0, None, 4).await,
        "fs.read_bytes.length_paged" => read(sandbox, 1, Some(7), 4).await,
        "fs.read_text" => read(sandbox, 0, None, 8).await,
        "fs.write.default" => drop(fs.write(PATH, "hello\n").await?),
        "fs.write.all" => {
            let how = Write::new().mode(mode(0o600)).existing_only().append();
            fs.write_with(PATH, &[0x00, 0xff][..], how).await?;
        }
        "fs.write.mode_zero" => drop(fs.write_with(PATH, "x", Write::new().mode(mode(0))).await?),
        "fs.write.mode_777" => {
            fs.write_with(PATH, "x", Write::new().mode(mode(0o777)))
                .await?;
        }
        "fs.write.empty" => drop(fs.write(PATH, "").await?),
        "fs.write.odd_path" => drop(fs.write(ODD, "x").await?),
        "fs.write_text" => drop(fs.write(PATH, "é").await?),
        // Text in another encoding is bytes to us.
        "fs.write_text.latin1" => drop(fs.write(PATH, &b"\xe9"[..]).await?),
        "fs.upload_file.chunks" => write(sandbox, Write::new().mode(mode(0o600)), 4, 10).await,
        "fs.upload_file.exact_multiple" => write(sandbox, Write::new(), 5, 10).await,
        "fs.upload_file.one_chunk" => write(sandbox, Write::new(), 10, 10).await,
        "fs.upload_file.empty" => write(sandbox, Write::new(), 1, 0).await,
        "fs.upload_file.no_create" => write(sandbox, Write::new().existing_only(), 6, 10).await,
        "fs.ls.default" => drop(fs.ls("/tmp").await?),
        "fs.ls.all" => drop(
            fs.ls_with("/tmp", Ls::new().recursive().max_entries(5))
                .await?,
        ),
        "fs.ls.false_zero" => drop(fs.ls_with("/tmp", Ls::new().max_entries(0)).await?),
        "fs.ls.odd_path" => drop(fs.ls(ODD).await?),
        "fs.mkdir.default" => fs.mkdir("/tmp/d").await?,
        "fs.mkdir.all" => {
            fs.mkdir_with("/tmp/d/é e", Mkdir::new().parents().mode(mode(0o700)))
                .await?;
        }
        "fs.rm.default" => fs.rm("/tmp/d").await?,
        "fs.rm.recursive" => fs.rm_all("/tmp/d").await?,
        "fs.rm.odd_path" => fs.rm(ODD).await?,
        "fs.stat" => drop(fs.stat(PATH).await?),
        "fs.stat.odd_path" => drop(fs.stat(ODD).await?),
        _ => return Ok(Made::NotOffered(NOT_WRITTEN)),
    }
    Ok(Made::Sent)
}

/// Reads a part of the file in pages, one after the other.
async fn read(sandbox: &SandboxClient, from: u64, to: Option<u64>, page: u64) {
    let reader = sandbox.fs().reader(PATH).unwrap();
    let reader = match to {
        Some(to) => reader.range(from..to),
        None => reader.range(from..),
    };
    let mut bytes = Vec::new();
    let mut reader = reader.page_size(page).parallel(1);
    reader.read_to_end(&mut bytes).await.unwrap();
}

/// Writes the first bytes of the digits in pages.
async fn write(sandbox: &SandboxClient, how: Write, page: usize, count: usize) {
    let mut writer = sandbox.fs().writer(PATH, how).await.unwrap();
    for part in b"0123456789"[..count].chunks(page) {
        writer.write_all(part).await.unwrap();
        writer.flush().await.unwrap();
    }
    writer.finish().await.unwrap();
}
