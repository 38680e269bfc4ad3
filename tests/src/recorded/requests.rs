//! Requests beside recorded requests.

use std::path::Path;

use serde_json::{Value, json};

use super::compare::{Places, difference};
use super::stub::Seen;
use super::{Case, Outcome, known};

pub(super) fn compare(case: &Case, seen: &[Seen], data: &Path, outcome: &mut Outcome) {
    let places = Places::of(case, data);
    let mut made: Vec<String> = seen.iter().map(|seen| of_seen(&places, seen)).collect();
    let mut recorded: Vec<(String, usize)> = Vec::new();
    for request in &case.requests {
        let request = of_recorded(&places, request);
        match recorded.iter_mut().find(|(known, _)| *known == request) {
            // The end of a run is made up to three times.
            Some((_, repeats)) => *repeats += 1,
            None => recorded.push((request, 0)),
        }
    }
    outcome.requests.1 += recorded.len();
    let mut missing = Vec::new();
    for (request, repeats) in recorded {
        outcome.repeats += repeats;
        let mut take = || {
            let place = made.iter().position(|made| *made == request);
            place.map(|place| made.remove(place)).is_some()
        };
        match take() {
            true => {
                outcome.requests.0 += 1;
                // What is repeated there may be repeated here, and need not be.
                for _ in 0..repeats {
                    take();
                }
            }
            false => missing.push(request),
        }
    }
    for request in missing {
        let nearest = made.iter().max_by_key(|made| common(made, &request));
        let nearest = nearest.filter(|made| common(made, &request) > 60);
        let text = match nearest {
            Some(made) => difference(&request, made),
            None => "is not made".to_owned(),
        };
        note(case, &request, &text, outcome);
    }
    for request in made {
        note(case, &request, "is made here only", outcome);
    }
}

fn note(case: &Case, request: &str, problem: &str, outcome: &mut Outcome) {
    let head: String = request.chars().take(220).collect();
    let text = format!("{head} … {problem}");
    match known::request(&case.case, request, problem) {
        Some(why) => outcome.known.push((text, why)),
        None => outcome.unknown.push(text),
    }
}

fn common(a: &str, b: &str) -> usize {
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}

fn of_recorded(places: &Places, request: &Value) -> String {
    let text = |key: &str| request[key].as_str().unwrap_or_default();
    let body = match request["body"].get("multipart") {
        Some(Value::Array(parts)) => form(places, parts),
        _ => request["body"].clone(),
    };
    plain(places, text("method"), text("path"), text("query"), body)
}

fn of_seen(places: &Places, seen: &Seen) -> String {
    let body = match seen.content_type.split_once("boundary=") {
        Some((_, boundary)) => form(places, &parts_of(&seen.body, boundary)),
        None => serde_json::from_slice(&seen.body).unwrap_or_default(),
    };
    plain(places, &seen.method, &seen.path, &seen.query, body)
}

fn plain(places: &Places, method: &str, path: &str, query: &str, body: Value) -> String {
    let body = places.plain_json(body);
    format!("{method} {path}?{query} {body}")
}

/// A form with its file in the form in which files are compared.
fn form(places: &Places, parts: &[Value]) -> Value {
    let part = |name: &str| parts.iter().find(|part| part["name"] == name);
    let json: Value = part("json")
        .and_then(|part| serde_json::from_str(part["content"].as_str()?).ok())
        .unwrap_or_default();
    let Some(file) = part("upload_file") else {
        return Value::from(parts.to_vec());
    };
    if let Some(members) = file.get("tar_gz_members") {
        return json!({"archive": members, "json": json});
    }
    // The whole path of the file in Python, of which the server takes the last part.
    let name = file["filename"].as_str().unwrap_or_default();
    let name = name.rsplit('/').next().unwrap_or_default();
    let path = format!("{}/{name}", json["path"].as_str().unwrap_or_default());
    let content = file["content"].as_str().unwrap_or_default();
    let content = match name {
        // Another process on another machine, in another language.
        "env.json" => "<env>".to_owned(),
        _ => places.plain_file(&path, content.as_bytes()),
    };
    json!({"file": name, "type": file["content_type"], "content": content, "json": json})
}

fn parts_of(body: &[u8], boundary: &str) -> Vec<Value> {
    let text = String::from_utf8_lossy(body);
    let line = format!("--{boundary}");
    let parts = text.split(&line);
    let read = |part: &str| -> Option<Value> {
        let (head, content) = part.split_once("\r\n\r\n")?;
        let content = content.strip_suffix("\r\n")?;
        let of = |name: &str| {
            let (_, rest) = head.split_once(&format!("{name}=\""))?;
            Some(rest.split('"').next()?.to_owned())
        };
        let content_type = head
            .split_once("Content-Type: ")
            .map(|(_, rest)| rest.trim());
        Some(json!({
            "name": of(" name"), "filename": of("filename"), "content": content,
            "content_type": content_type,
        }))
    };
    parts.filter_map(read).collect()
}
