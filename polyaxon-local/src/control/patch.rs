//! Changes of a run's own description: names, tags, inputs, outputs.

use serde_json::{Map, Value};

use super::Problem;
use super::record::Record;

/// The longest name of a run.
pub(super) const NAME_CHARS: usize = 128;

/// Whether values are added to those that are there, or take their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Merge,
    Replace,
}

/// Changes `record` as the body of a patch says. Nothing is changed where something is wrong.
///
/// With `merge` the keys of `inputs`, `outputs` and `meta_info` win over those that are there, not
/// deeper than the first level, and `tags` are appended. Unknown members are ignored, as the
/// platform does it.
///
/// # Errors
/// The field, and what is wrong with it.
pub(super) fn apply(record: &mut Record, body: &Map<String, Value>) -> Result<(), Problem> {
    let mode = match body.get("merge") {
        None | Some(Value::Null | Value::Bool(false)) => Mode::Replace,
        Some(Value::Bool(true)) => Mode::Merge,
        Some(_) => return Err(Problem::field("merge", "Must be a valid boolean.")),
    };
    if body.contains_key("status") {
        let text = "The status is not changed here: post a condition to `statuses`.";
        return Err(Problem::field("status", text));
    }
    if body.get("managed_by") == Some(&"agent".into()) && record.operation.is_none() {
        return Err(Problem::field(
            "managed_by",
            "The run has no content to be managed.",
        ));
    }
    let name = text(body, "name")?;
    check_name(name.as_ref().and_then(Option::as_deref))?;
    let description = text(body, "description")?;
    let readme = text(body, "readme")?;
    let tags = tags(body)?;
    let meta_info = object(body, "meta_info")?;

    let given = &mut record.given;
    set(&mut given.name, name);
    set(&mut given.description, description);
    set(&mut given.readme, readme);
    if let Some(tags) = tags {
        if mode == Mode::Replace {
            given.tags.clear();
        }
        for tag in tags {
            if !given.tags.contains(&tag) {
                given.tags.push(tag);
            }
        }
    }
    if let Some(new) = meta_info {
        let old = given.meta_info.take().filter(|_| mode == Mode::Merge);
        given.meta_info = match (old, new) {
            (Some(mut old), new) => {
                old.extend(new.unwrap_or_default());
                Some(old)
            }
            (None, new) => new,
        };
    }
    for (member, field) in [
        ("inputs", &mut given.inputs),
        ("outputs", &mut given.outputs),
    ] {
        if let Some(new) = body.get(member) {
            *field = merged(std::mem::take(field), new.clone(), mode);
        }
    }
    record.touch();
    Ok(())
}

/// Whether a run can have this name.
///
/// # Errors
/// A name that is too long.
pub(super) fn check_name(name: Option<&str>) -> Result<(), Problem> {
    match name {
        Some(name) if name.chars().count() > NAME_CHARS => Err(Problem::field(
            "name",
            format!("Ensure this field has no more than {NAME_CHARS} characters."),
        )),
        _ => Ok(()),
    }
}

fn set<T>(field: &mut T, new: Option<T>) {
    if let Some(new) = new {
        *field = new;
    }
}

fn merged(old: Value, new: Value, mode: Mode) -> Value {
    match (mode, old, new) {
        (Mode::Merge, Value::Object(mut old), Value::Object(new)) => {
            old.extend(new);
            Value::Object(old)
        }
        (Mode::Merge, old, Value::Null) => old,
        (_, _, new) => new,
    }
}

/// A text or null, where it is there.
fn text(body: &Map<String, Value>, name: &str) -> Result<Option<Option<String>>, Problem> {
    match body.get(name) {
        None => Ok(None),
        Some(Value::Null) => Ok(Some(None)),
        Some(Value::String(text)) => Ok(Some(Some(text.clone()))),
        Some(_) => Err(Problem::field(name, "Not a valid string.")),
    }
}

fn object(
    body: &Map<String, Value>,
    name: &str,
) -> Result<Option<Option<Map<String, Value>>>, Problem> {
    match body.get(name) {
        None => Ok(None),
        Some(Value::Null) => Ok(Some(None)),
        Some(Value::Object(members)) => Ok(Some(Some(members.clone()))),
        Some(_) => Err(Problem::field(name, "Value must be a JSON object.")),
    }
}

fn tags(body: &Map<String, Value>) -> Result<Option<Vec<String>>, Problem> {
    let wrong = || Problem::field("tags", "Expected a list of items.");
    match body.get("tags") {
        None => Ok(None),
        Some(Value::Null) => Ok(Some(Vec::new())),
        Some(Value::Array(tags)) => tags
            .iter()
            .map(|tag| tag.as_str().map(str::to_owned).ok_or_else(wrong))
            .collect::<Result<_, _>>()
            .map(Some),
        Some(_) => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::record::Given;
    use super::*;

    fn patched(patches: &[Value]) -> Value {
        let (mut record, _) = Record::new(Given::default(), None);
        for patch in patches {
            apply(&mut record, patch.as_object().unwrap()).unwrap();
        }
        let json = record.to_json();
        json!([
            json["inputs"],
            json["outputs"],
            json["meta_info"],
            json["tags"],
            json["name"],
            json["readme"]
        ])
    }

    #[test]
    fn a_merge_keeps_what_it_does_not_name_and_goes_one_level_deep() {
        let first = json!({"inputs": {"a": 1, "o": {"x": 1, "y": 2}}, "tags": ["a", "b"], "name": "n",
            "meta_info": {"k": 1}});
        let second = json!({"inputs": {"b": 2, "o": {"x": 3}}, "outputs": {"loss": 0.5},
            "tags": ["b", "c"], "readme": "r", "meta_info": {"l": 2}, "merge": true, "uuid": "no", "odd": 1});
        let want = json!([{"a": 1, "b": 2, "o": {"x": 3}}, {"loss": 0.5}, {"k": 1, "l": 2}, ["a", "b", "c"], "n", "r"]);
        assert_eq!(patched(&[first.clone(), second]), want);
        let replace = json!({"inputs": {"b": 2}, "tags": ["z"], "name": null, "meta_info": null});
        let want = json!([{"b": 2}, null, null, ["z"], null, null]);
        assert_eq!(patched(&[first.clone(), replace]), want);
        assert_eq!(patched(&[first.clone(), json!({})]), patched(&[first]));
    }

    #[test]
    fn a_wrong_member_changes_nothing() {
        for wrong in [
            json!({"name": 1, "inputs": {"a": 1}}),
            json!({"name": "n".repeat(129)}),
            json!({"tags": "str"}),
            json!({"tags": [1]}),
            json!({"meta_info": []}),
            json!({"merge": "yes"}),
            json!({"status": "running"}),
            json!({"managed_by": "agent"}),
        ] {
            let (mut record, _) = Record::new(Given::default(), None);
            apply(&mut record, wrong.as_object().unwrap()).unwrap_err();
            assert_eq!(record.to_json()["inputs"], Value::Null, "{wrong}");
        }
    }
}
