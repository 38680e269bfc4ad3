//! Values in the command of a job: `{{ name }}` of a declared input.

use serde_json::{Map, Value};

/// `text` with every `{{ name }}` replaced by the input of that name. `{{ params.name }}` and
/// `{{ inputs.name }}` are the same.
///
/// # Errors
/// A sentence about what is in braces and is no input: an expression is not computed here.
pub(crate) fn resolve(text: &str, inputs: &Map<String, Value>) -> Result<String, String> {
    let mut resolved = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        resolved.push_str(before);
        let (inside, after) = after
            .split_once("}}")
            .ok_or_else(|| format!("`{text}`: a `{{{{` is not closed"))?;
        let name = inside.trim();
        let name = ["params.", "inputs."]
            .into_iter()
            .find_map(|prefix| name.strip_prefix(prefix))
            .unwrap_or(name);
        match inputs.get(name) {
            Some(Value::String(value)) => resolved.push_str(value),
            Some(value) => resolved.push_str(&value.to_string()),
            None => {
                return Err(format!(
                    "`{{{{{inside}}}}}` is no declared input, and expressions are not computed here"
                ));
            }
        }
        rest = after;
    }
    resolved.push_str(rest);
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_declared_inputs_are_filled_in() {
        let inputs = json!({"a": "x y", "n": 3, "f": true, "list": [1]});
        let inputs = inputs.as_object().unwrap();
        let table = [
            ("", Ok("")),
            ("plain } { text", Ok("plain } { text")),
            ("{{ a }}", Ok("x y")),
            ("{{a}}-{{ n }}", Ok("x y-3")),
            ("--f={{ params.f }} {{ inputs.list }}", Ok("--f=true [1]")),
            ("{{ b }}", Err("no declared input")),
            ("{{ a | upper }}", Err("not computed")),
            ("{{ globals.run_uuid }}", Err("no declared input")),
            ("{{ a", Err("not closed")),
        ];
        for (text, want) in table {
            match (resolve(text, inputs), want) {
                (Ok(got), Ok(want)) => assert_eq!(got, want, "{text}"),
                (Err(got), Err(word)) => assert!(got.contains(word), "{got}"),
                (got, want) => panic!("{text}: {got:?} {want:?}"),
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn a_text_without_braces_stays_as_it_is(text in "[^{}]{0,20}") {
            proptest::prop_assert_eq!(resolve(&text, &Map::new()).unwrap(), text);
        }
    }
}
