//! What a case finds: files, execs and terminals as its requests assume them, in one sandbox that
//! is put back before each case.

use std::time::Instant;

use polyaxon_local::LocalServer;
use serde_json::{Value, json};

use crate::answers::Want;
use crate::raw::{Answer, LIMIT, send};
use crate::recorded::Recorded;
use crate::shape::{self, Check, members, same};
use crate::socket::{self, Handshake};

/// The token, owner, project and namespace, and the ids, of the recordings.
const TOKEN: &str = "test-token";
const API: &str = "/api/v1/acme/demo/runs";
const NAMESPACE: &str = "test-ns";
const RUN: &str = "11111111111111111111111111111111";
const CREATED: &str = "00000000000000000000000000000000";
const CONTENT: &str = "0123456789";

pub(crate) struct Stage {
    server: LocalServer,
    namespace: String,
    run: String,
    /// What `exec-1` and `pty-1` stand for.
    exec: String,
    pty: String,
    /// The last run that a case created.
    created: String,
    /// What the file that a case writes holds.
    written: Vec<u8>,
}

impl Stage {
    pub(crate) async fn start() -> Self {
        let builder = LocalServer::builder().token(TOKEN);
        let server = builder.project("acme/demo".parse().unwrap()).start().await;
        let mut stage = Self {
            server: server.unwrap(),
            namespace: String::new(),
            run: String::new(),
            exec: String::new(),
            pty: String::new(),
            created: String::new(),
            written: Vec::new(),
        };
        let content = json!({"plugins": {"sandbox": true}, "ports": [],
            "container": {"image": "python:3.12-slim"}});
        let body = json!({"content": content.to_string()});
        let run = stage.ask("POST", API, Some(&body)).await.json().unwrap();
        stage.run = run["uuid"].as_str().unwrap().to_owned();
        stage.until_running(&stage.run).await;
        let lookup = format!("{API}/{}/namespace", stage.run);
        let namespace = stage.ask("GET", &lookup, None).await.json().unwrap();
        stage.namespace = namespace["namespace"].as_str().unwrap().to_owned();
        stage
    }

    async fn until_running(&self, run: &str) {
        let path = format!("{API}/{run}/statuses");
        self.eventually("running", async || {
            let statuses = self.ask("GET", &path, None).await.json().unwrap();
            statuses["status"] == "running"
        })
        .await;
    }

    async fn eventually(&self, what: &str, probe: impl AsyncFn() -> bool) {
        let begun = Instant::now();
        while !probe().await {
            assert!(begun.elapsed() < LIMIT, "{what} did not come");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    /// A call of the test's own.
    async fn call(&self, method: &str, target: &str, body: Option<&[u8]>) -> Answer {
        let headers = [("authorization".to_owned(), format!("Token {TOKEN}"))];
        send(self.server.address(), method, target, &headers, body).await
    }

    async fn ask(&self, method: &str, target: &str, body: Option<&Value>) -> Answer {
        let body = body.map(|body| body.to_string().into_bytes());
        self.call(method, target, body.as_deref()).await
    }

    async fn ask_sandbox(&self, method: &str, subpath: &str, body: Option<&Value>) -> Answer {
        self.ask(method, &self.at(subpath), body).await
    }

    fn at(&self, subpath: &str) -> String {
        let (namespace, run) = (&self.namespace, &self.run);
        format!("/sandbox/v1/{namespace}/acme/demo/runs/{run}/{subpath}")
    }

    async fn list(&self, route: &str, member: &str) -> Vec<Value> {
        let answer = self.ask_sandbox("GET", route, None).await.json().unwrap();
        answer[member].as_array().unwrap().clone()
    }

    /// Empties the sandbox and puts there what the case of `row` needs.
    pub(crate) async fn reset(&mut self, row: &Recorded) {
        for exec in self.list("exec/bg", "execs").await {
            let path = format!("exec/bg/{}", exec["exec_id"].as_str().unwrap());
            assert_eq!(self.ask_sandbox("DELETE", &path, None).await.status, 204);
        }
        for pty in self.list("pty", "sessions").await {
            let path = format!("pty/{}", pty["pty_id"].as_str().unwrap());
            // A shell at a terminal ignores SIGTERM, and the delete would wait for it.
            let kill = json!({"signal": "SIGKILL"});
            self.ask_sandbox("POST", &format!("{path}/signal"), Some(&kill))
                .await;
            assert_eq!(self.ask_sandbox("DELETE", &path, None).await.status, 204);
        }
        for entry in self.list("fs/ls?path=/tmp", "entries").await {
            let path = format!("/tmp/{}", entry["name"].as_str().unwrap());
            let rm = format!("fs/rm?recursive=true&path={}", encode(&path));
            assert_eq!(self.ask_sandbox("DELETE", &rm, None).await.status, 200);
        }
        let case = row.call_of_case();
        self.files(row).await;
        if case.starts_with("exec_bg.") || case == "cli.logs" {
            self.exec_of(case).await;
        }
        let attaches = case == "auth.service_header.ws";
        if attaches || case.starts_with("pty.") && !case.starts_with("pty.create") {
            let script = "trap '' INT; exec cat";
            let body = json!({"command": ["sh", "-c", script], "tag": "t"});
            let created = self.ask_sandbox("POST", "pty", Some(&body)).await;
            let created = created.json().unwrap();
            self.pty = created["pty_id"].as_str().unwrap().to_owned();
        }
    }

    async fn files(&mut self, row: &Recorded) {
        let case = row.call_of_case();
        self.written.clear();
        let creates = row
            .parameter("create")
            .is_some_and(|create| create == "true");
        if let Some((folder, _)) = row
            .parameter("path")
            .as_deref()
            .filter(|_| case.contains("odd_path"))
            .and_then(|path| path.rsplit_once('/'))
        {
            self.mkdir(folder).await;
        }
        match case.replace(".async", "").as_str() {
            "fs.ls.odd_path" => {
                let path = row.parameter("path").unwrap();
                self.mkdir(&path).await;
                self.write(&format!("{path}/inside")).await;
            }
            "fs.read.odd_path" | "fs.stat.odd_path" | "fs.rm.odd_path" => {
                self.write(&row.parameter("path").unwrap()).await;
            }
            "fs.rm.default" => self.mkdir("/tmp/d").await,
            "cli.download" => self.write("/tmp/remote.txt").await,
            name if name.starts_with("fs.mkdir") || creates => {}
            _ => {
                self.write("/tmp/a").await;
                self.written = CONTENT.as_bytes().to_vec();
                self.mkdir("/tmp/d").await;
                self.write("/tmp/d/x").await;
            }
        }
    }

    async fn mkdir(&self, path: &str) {
        let body = json!({"path": path, "parents": true});
        assert_eq!(
            self.ask_sandbox("POST", "fs/mkdir", Some(&body))
                .await
                .status,
            200
        );
    }

    async fn write(&self, path: &str) {
        let target = format!("fs/write?path={}", encode(path));
        let answer = self
            .call("POST", &self.at(&target), Some(CONTENT.as_bytes()))
            .await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    /// Starts what `exec-1` stands for: something that runs, or something that has ended.
    async fn exec_of(&mut self, case: &str) {
        let case = case.replace(".async", "");
        let runs = ["exec_bg.signal", "exec_bg.delete", "exec_bg.handle.kill"].contains(&&*case);
        let starts = ["exec_bg.minimal", "exec_bg.all", "exec_bg.tag_empty"].contains(&&*case);
        if starts {
            return;
        }
        let script = match runs {
            true => "exec sleep 600",
            false => "printf 0123456789; printf abcdefghij >&2",
        };
        let body = json!({"command": ["sh", "-c", script], "tag": "nightly"});
        let started = self.ask_sandbox("POST", "exec/bg", Some(&body)).await;
        let started = started.json().unwrap();
        self.exec = started["exec_id"].as_str().unwrap().to_owned();
        if !runs {
            self.until_state("exited").await;
        }
    }

    async fn until_state(&self, state: &str) {
        let path = format!("exec/bg/{}", self.exec);
        self.eventually(state, async || {
            let record = self.ask_sandbox("GET", &path, None).await.json().unwrap();
            record["state"] == state
        })
        .await;
    }

    /// Sends the request of `row` and compares what comes back, and what it has done.
    pub(crate) async fn play(&mut self, row: &Recorded, want: Want) -> Check {
        let address = self.server.address();
        let target = self.target(row);
        if row.case == "create.then_ping#2" {
            self.until_running(&self.created).await;
        }
        if row.is_upgrade() {
            return match (socket::play(address, &target, row).await, want) {
                (Handshake::Upgraded(frames), Want::Attached) => frames,
                (Handshake::Refused(answer), Want::Refused(status, code)) => {
                    shape::refused(&answer, status, code)
                }
                (Handshake::Refused(answer), _) => shape::status(&answer, 101),
                (Handshake::Upgraded(_), _) => Err("upgraded".to_owned()),
            };
        }
        let method = row.method.as_deref().unwrap();
        let body = row.body.as_deref();
        let answer = send(address, method, &target, &row.headers, body).await;
        self.compare(row, want, &answer)?;
        self.effect(row, want).await
    }

    /// The path with the ids of this server in place of the recorded ones.
    fn target(&self, row: &Recorded) -> String {
        let path = row
            .path
            .replace(&format!("/{NAMESPACE}/"), &format!("/{}/", self.namespace))
            .replace(RUN, &self.run)
            .replace(CREATED, &self.created)
            .replace("/exec-1", &format!("/{}", self.exec))
            .replace("/pty-1", &format!("/{}", self.pty));
        match row.query.is_empty() {
            true => path,
            false => format!("{path}?{}", row.query),
        }
    }

    fn compare(&mut self, row: &Recorded, want: Want, answer: &Answer) -> Check {
        let offset = row.parameter("offset").and_then(|text| text.parse().ok());
        let offset: usize = offset.unwrap_or(0);
        match want {
            Want::Page(status) => shape::page(answer, status),
            Want::Refused(status, code) => shape::refused(answer, status, code),
            Want::Detail(status) => members(&shape::json(answer, status)?, &["detail"], &[]),
            Want::Malformed => shape::status(answer, 400),
            Want::Namespace => {
                let body = shape::json(answer, 200)?;
                same(
                    "namespace",
                    body["namespace"].as_str(),
                    Some(&*self.namespace),
                )
            }
            Want::Ping => shape::ping(answer),
            Want::Exec(stdout) => shape::exec(answer, Some(stdout)),
            Want::ExecOfAnything => shape::exec(answer, None),
            Want::Stream(stdout) => shape::stream(answer, stdout),
            Want::Started => {
                let body = shape::daemon_json(answer, 202)?;
                let tag = row.json()["tag"].as_str().unwrap_or_default().to_owned();
                let tags: &[&str] = if tag.is_empty() { &[] } else { &["tag"] };
                let always = [&["exec_id", "pid", "started_at"], tags].concat();
                members(&body, &always, &[])?;
                same("tag", body["tag"].as_str().unwrap_or_default(), &tag)?;
                shape::time(&body["started_at"])
            }
            Want::Execs(count) => {
                let body = shape::daemon_json(answer, 200)?;
                members(&body, &["execs"], &[])?;
                let execs = body["execs"].as_array().ok_or("no list")?;
                same("execs", execs.len(), count)?;
                execs
                    .iter()
                    .try_for_each(|exec| shape::exec_record(exec, true))
            }
            Want::Status(state) => {
                let body = shape::daemon_json(answer, 200)?;
                shape::exec_record(&body, false)?;
                same("state", body["state"].as_str(), Some(state))?;
                same("stdout_bytes", body["stdout_bytes"].as_u64(), Some(10))?;
                same("exit_code", body["exit_code"].as_i64(), Some(0))
            }
            Want::Logs(data, eof) => {
                let stream = row.parameter("stream");
                let stream = stream.as_deref().unwrap_or("stdout");
                shape::logs(answer, stream, offset, data, eof)
            }
            Want::Nothing => {
                shape::status(answer, 204)?;
                shape::request_id(answer)?;
                same("body", answer.body.len(), 0)
            }
            Want::Bytes(text, eof) => shape::bytes(answer, offset, text, eof),
            Want::Written => self.compare_written(row, answer),
            Want::Entries(names) => {
                let body = shape::daemon_json(answer, 200)?;
                members(&body, &["path", "entries", "truncated"], &[])?;
                same("truncated", body["truncated"].as_bool(), Some(false))?;
                let entries = body["entries"].as_array().ok_or("no list")?;
                let is: Vec<_> = entries
                    .iter()
                    .filter_map(|one| one["name"].as_str())
                    .collect();
                same("names", is.as_slice(), names)?;
                entries.iter().try_for_each(shape::entry)
            }
            Want::Done => {
                let body = shape::daemon_json(answer, 200)?;
                members(&body, &["path"], &[])?;
                same("path", body["path"].as_str(), path_of(row).as_deref())
            }
            Want::Stat => {
                let body = shape::daemon_json(answer, 200)?;
                let always = [
                    "path",
                    "type",
                    "size",
                    "mtime",
                    "mode",
                    "uid",
                    "gid",
                    "symlink_target",
                ];
                members(&body, &always, &[])?;
                same("path", body["path"].as_str(), path_of(row).as_deref())?;
                same("type", body["type"].as_str(), Some("file"))?;
                same("size", body["size"].as_u64(), Some(10))?;
                same("mode", body["mode"].as_str(), Some("0644"))?;
                same("symlink_target", &body["symlink_target"], &Value::Null)
            }
            Want::PtyCreated => {
                let body = shape::daemon_json(answer, 201)?;
                let asked = row.json();
                let tags: &[&str] = if asked["tag"].is_null() {
                    &[]
                } else {
                    &["tag"]
                };
                let all = [&["pty_id", "pid", "started_at", "cols", "rows"], tags].concat();
                members(&body, &all, &["state"])?;
                let place = format!("/pty/{}", body["pty_id"].as_str().unwrap_or_default());
                same("location", answer.header("location"), Some(&*place))?;
                let size = |name: &str, usual: u64| asked[name].as_u64().or(Some(usual));
                same("cols", body["cols"].as_u64(), size("cols", 80))?;
                same("rows", body["rows"].as_u64(), size("rows", 24))
            }
            Want::Ptys(count) => {
                let body = shape::daemon_json(answer, 200)?;
                members(&body, &["sessions"], &[])?;
                let sessions = body["sessions"].as_array().ok_or("no list")?;
                same("sessions", sessions.len(), count)?;
                sessions.iter().try_for_each(shape::session)
            }
            Want::Pty => shape::session(&shape::daemon_json(answer, 200)?),
            Want::Attached => Err("this is no upgrade".to_owned()),
            Want::Run => self.compare_run(row, answer),
        }
    }

    fn compare_written(&mut self, row: &Recorded, answer: &Answer) -> Check {
        let body = shape::daemon_json(answer, 200)?;
        members(&body, &["path", "bytes_written", "created"], &[])?;
        let sent = row.body.clone().unwrap_or_default();
        let count = u64::try_from(sent.len()).ok();
        same("path", body["path"].as_str(), path_of(row).as_deref())?;
        same("bytes_written", body["bytes_written"].as_u64(), count)?;
        let creates = row.parameter("create").as_deref() == Some("true");
        same("created", body["created"].as_bool(), Some(creates))?;
        if row.parameter("append").as_deref() != Some("true") {
            self.written.clear();
        }
        self.written.extend_from_slice(&sent);
        Ok(())
    }

    fn compare_run(&mut self, row: &Recorded, answer: &Answer) -> Check {
        let body = shape::json(answer, 201)?;
        let uuid = body["uuid"].as_str().unwrap_or_default();
        let plain = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if uuid.len() != 32 || !uuid.bytes().all(plain) {
            return Err(format!("no plain uuid: {body}"));
        }
        self.created = uuid.to_owned();
        let namespace = body["settings"]["namespace"].as_str();
        same("namespace", namespace, Some(&*self.namespace))?;
        let asked = row.json();
        let echoed = [
            "name",
            "description",
            "tags",
            "meta_info",
            "is_managed",
            "managed_by",
            "pending",
        ];
        for name in echoed.iter().filter(|name| !asked[**name].is_null()) {
            same(name, &body[*name], &asked[*name])?;
        }
        Ok(())
    }

    /// What the call has done, where it answers with nothing or little.
    async fn effect(&self, row: &Recorded, want: Want) -> Check {
        let path = path_of(row).map(|path| encode(&path));
        let stat = format!("fs/stat?path={}", path.unwrap_or_default());
        match (row.method.as_deref().unwrap(), want) {
            (_, Want::Written) => {
                let is = self.ask_sandbox("GET", &stat, None).await.json()?;
                let size = u64::try_from(self.written.len()).ok();
                same("size", is["size"].as_u64(), size)?;
                let mode = row.parameter("mode");
                if row.parameter("create").as_deref() == Some("true") {
                    same("mode", is["mode"].as_str(), mode.as_deref())?;
                }
                if mode.as_deref() == Some("0000") {
                    return Ok(());
                }
                let read = stat.replace("fs/stat", "fs/read");
                let read = self.ask_sandbox("GET", &read, None).await;
                same("content", &read.body, &self.written)
            }
            ("DELETE", Want::Done) => shape::refused(
                &self.ask_sandbox("GET", &stat, None).await,
                404,
                "not_found",
            ),
            (_, Want::Done) => {
                let is = self.ask_sandbox("GET", &stat, None).await.json()?;
                same("type", is["type"].as_str(), Some("dir"))?;
                same("mode", &is["mode"], &row.json()["mode"])
            }
            (method, Want::Nothing) => self.process_effect(row, method).await,
            _ => Ok(()),
        }
    }

    async fn process_effect(&self, row: &Recorded, method: &str) -> Check {
        let of_exec = row.path.contains("/exec/");
        let record = match of_exec {
            true => format!("exec/bg/{}", self.exec),
            false => format!("pty/{}", self.pty),
        };
        if method == "DELETE" {
            let gone = self.ask_sandbox("GET", &record, None).await;
            return shape::refused(&gone, 404, "not_found");
        }
        if row.path.ends_with("/resize") {
            let is = self.ask_sandbox("GET", &record, None).await.json()?;
            same("cols", &is["cols"], &row.json()["cols"])?;
            return same("rows", &is["rows"], &row.json()["rows"]);
        }
        let ended = match of_exec {
            true => "signaled",
            false => "exited",
        };
        self.eventually(ended, async || {
            let is = self.ask_sandbox("GET", &record, None).await.json().unwrap();
            is["state"] == ended
        })
        .await;
        let is = self.ask_sandbox("GET", &record, None).await.json()?;
        same("signal", &is["signal"], &row.json()["signal"])?;
        same("exit code", is["exit_code"].as_i64(), Some(-1))
    }
}

/// The path that a call is about.
fn path_of(row: &Recorded) -> Option<String> {
    row.parameter("path").or_else(|| {
        let body: Value = serde_json::from_slice(row.body.as_deref()?).ok()?;
        Some(body["path"].as_str()?.to_owned())
    })
}

/// A value of a query.
fn encode(text: &str) -> String {
    let bytes = text.bytes().map(|byte| match byte {
        b'/' | b'.' | b'_' => char::from(byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    bytes.collect()
}
