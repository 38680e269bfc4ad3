//! No client: bytes written and read by hand on kept connections, and `curl` where files and
//! streams are concerned. What a client takes on top of this is its own.

use std::fs;
use std::io::{BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

use crate::place::Place;
use crate::scenario::{MIB, PAGE};
use crate::worker::{self, Done, Task};

pub(crate) fn work() -> Result<()> {
    let place = Place::from_env()?;
    let scratch = tempfile::tempdir()?;
    worker::serve(|task| match task.scenario.as_str() {
        "exec" => sequential(&place, task.count),
        "burst" => burst(&place, task.count),
        "events" => events(&place, task),
        "download" => download(&place, task, &scratch.path().join("down")),
        "upload" => upload(&place, task, &scratch.path().join("up")),
        "files" => files(task, &scratch.path().join("files")),
        "follow" => round_trips(&place, task.count),
        other => bail!("no such scenario: {other}"),
    })
}

/// A connection that is used again and again.
struct Connection {
    stream: BufReader<TcpStream>,
    head: String,
}

impl Connection {
    fn open(place: &Place) -> Result<Self> {
        let address = place.url.trim_start_matches("http://");
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
            head: format!(
                "Host: {address}\r\nAuthorization: Token {}\r\n",
                place.token
            ),
        })
    }

    fn call(&mut self, method: &str, path: &str, body: &str) -> Result<Vec<u8>> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\n{}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.head,
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        let mut length = None;
        let mut line = Vec::new();
        loop {
            line.clear();
            std::io::BufRead::read_until(&mut self.stream, b'\n', &mut line)?;
            let text = String::from_utf8_lossy(&line).to_ascii_lowercase();
            if let Some(value) = text.strip_prefix("content-length:") {
                length = Some(value.trim().parse::<usize>()?);
            }
            if line == b"\r\n" {
                break;
            }
            ensure!(!line.is_empty(), "the connection was closed");
        }
        let mut body = vec![0; length.context("no content-length")?];
        self.stream.read_exact(&mut body)?;
        Ok(body)
    }
}

const TRUE: &str = r#"{"command":["/bin/true"]}"#;

fn exited(body: &[u8]) -> bool {
    memchr::memmem::find(body, br#""exit_code":0"#).is_some()
}

fn sequential(place: &Place, count: u64) -> Result<Done> {
    let mut connection = Connection::open(place)?;
    let path = place.path("exec");
    let mut samples = Vec::new();
    let mut fine = 0;
    for _ in 0..count {
        let started = Instant::now();
        let body = connection.call("POST", &path, TRUE)?;
        samples.push(started.elapsed().as_secs_f64());
        fine += u64::from(exited(&body));
    }
    Ok(Done {
        samples,
        check: format!("{fine} exited with 0"),
    })
}

fn burst(place: &Place, count: u64) -> Result<Done> {
    let path = place.path("exec");
    let started = Instant::now();
    let fine = thread::scope(|scope| {
        let calls: Vec<_> = (0..count)
            .map(|_| {
                scope.spawn(|| -> Result<u64> {
                    let body = Connection::open(place)?.call("POST", &path, TRUE)?;
                    Ok(u64::from(exited(&body)))
                })
            })
            .collect();
        let join = |call: thread::ScopedJoinHandle<'_, Result<u64>>| call.join().unwrap_or(Ok(0));
        calls.into_iter().map(join).sum::<Result<u64>>()
    })?;
    Ok(Done {
        samples: vec![started.elapsed().as_secs_f64()],
        check: format!("{fine} exited with 0"),
    })
}

/// How long a call takes that does nothing: the least that news of anything can take.
fn round_trips(place: &Place, count: u64) -> Result<Done> {
    let mut connection = Connection::open(place)?;
    let path = place.path("ping");
    let mut samples = Vec::new();
    let mut answered = 0;
    for _ in 0..count {
        let started = Instant::now();
        let body = connection.call("GET", &path, "")?;
        samples.push(started.elapsed().as_secs_f64());
        answered += u64::from(memchr::memmem::find(&body, br#""status":"ok""#).is_some());
    }
    Ok(Done {
        samples,
        check: format!("{answered} lines"),
    })
}

fn curl(place: &Place) -> Command {
    let mut command = Command::new("curl");
    command
        .args([
            "--silent",
            "--show-error",
            "--fail",
            "--no-buffer",
            "--noproxy",
            "*",
        ])
        .args(["--header", &format!("Authorization: Token {}", place.token)])
        .stdin(Stdio::null());
    command
}

fn timed(command: &mut Command) -> Result<f64> {
    Ok(timed_output(command)?.0)
}

/// How long it took, and what it said.
fn timed_output(command: &mut Command) -> Result<(f64, String)> {
    let started = Instant::now();
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.context("curl is needed")?;
    let took = started.elapsed().as_secs_f64();
    ensure!(output.status.success(), "curl: {}", output.status);
    Ok((took, String::from_utf8(output.stdout)?))
}

fn events(place: &Place, task: &Task) -> Result<Done> {
    let body = format!(
        r#"{{"command":["events","{}","{}"]}}"#,
        task.size, task.count
    );
    let (took, downloaded) = timed_output(
        curl(place)
            .args(["--header", "Content-Type: application/json"])
            .args(["--data-binary", &body, "--output", "/dev/null"])
            .args(["--write-out", "%{size_download}"])
            .arg(format!("{}{}", place.events_url, place.path("exec/stream"))),
    )?;
    // The texts are in what was downloaded, with what frames them; it is not read here.
    let downloaded: u64 = downloaded.trim().parse().context("curl says no size")?;
    Ok(Done {
        samples: vec![took],
        check: format!("{} bytes", downloaded.min(task.size * task.count)),
    })
}

fn download(place: &Place, task: &Task, to: &Path) -> Result<Done> {
    let mut command = curl(place);
    for page in 0..task.size.div_ceil(PAGE) {
        let offset = page * PAGE;
        let length = PAGE.min(task.size - offset);
        command.arg(format!(
            "{}{}?path=/tmp/large-{}&offset={offset}&length={length}",
            place.url,
            place.path("fs/read"),
            task.size
        ));
    }
    let took = timed(command.stdout(fs::File::create(to)?))?;
    let check = format!("{} bytes", fs::metadata(to)?.len());
    fs::remove_file(to)?;
    Ok(Done {
        samples: vec![mib_per_second(task.size, took)],
        check,
    })
}

fn upload(place: &Place, task: &Task, page: &Path) -> Result<Done> {
    let size = usize::try_from(PAGE.min(task.size))?;
    fs::write(page, vec![b'x'; size])?;
    let mut command = curl(place);
    for number in 0..task.size.div_ceil(PAGE) {
        let append = number > 0;
        if append {
            command.args([
                "--next",
                "--silent",
                "--show-error",
                "--fail",
                "--noproxy",
                "*",
            ]);
            command.args(["--header", &format!("Authorization: Token {}", place.token)]);
        }
        command
            .args([
                "--header",
                "Content-Type: application/octet-stream",
                "--header",
                "Expect:",
            ])
            .args(["--output", "/dev/null", "--data-binary"])
            .arg(format!("@{}", page.display()))
            .arg(format!(
                "{}{}?path=/tmp/up-raw&mode=0644&create=true&append={append}",
                place.url,
                place.path("fs/write")
            ));
    }
    let took = timed(&mut command)?;
    let stat = place.path("fs/stat?path=/tmp/up-raw");
    let stat = Connection::open(place)?.call("GET", &stat, "")?;
    let stat: serde_json::Value = serde_json::from_slice(&stat)?;
    Ok(Done {
        samples: vec![mib_per_second(task.size, took)],
        check: format!("{} bytes", stat.get("size").context("no size")?),
    })
}

pub(crate) fn mib_per_second(bytes: u64, seconds: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let mib = bytes as f64 / MIB as f64;
    mib / seconds
}

fn files(task: &Task, folder: &Path) -> Result<Done> {
    fs::create_dir(folder)?;
    let bytes = vec![b'x'; usize::try_from(task.size)?];
    let started = Instant::now();
    for number in 0..task.count {
        fs::write(folder.join(format!("f{number}")), &bytes)?;
    }
    let took = started.elapsed().as_secs_f64();
    let count = fs::read_dir(folder)?.count();
    fs::remove_dir_all(folder)?;
    Ok(Done {
        samples: vec![took],
        check: format!("{count} files"),
    })
}
