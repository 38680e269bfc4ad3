//! The inputs of an operation: declared by its component, given by its params.

use serde_json::{Map, Value};

/// The values of the declared inputs of the operation `root`: those of its params, else the
/// defaults. An optional one without either is left out.
///
/// # Errors
/// A sentence about an input without a value, or a param that is no input.
pub(crate) fn values(root: &Value) -> Result<Map<String, Value>, String> {
    let declared = root
        .pointer("/component/inputs")
        .or_else(|| root.get("inputs"))
        .and_then(Value::as_array);
    let declared = declared.map(Vec::as_slice).unwrap_or_default();
    let none = Map::new();
    let params = root
        .get("params")
        .and_then(Value::as_object)
        .unwrap_or(&none);
    let mut values = Map::new();
    for input in declared {
        let Some(name) = input.get("name").and_then(Value::as_str) else {
            return Err("an input has no name".to_owned());
        };
        let param = params.get(name).map(|param| match param.get("value") {
            Some(value) => value,
            None => param,
        });
        if params
            .get(name)
            .is_some_and(|param| param.get("ref").is_some())
        {
            return Err(format!(
                "the param `{name}` is a reference, and nothing resolves it here"
            ));
        }
        let default = input.get("value").filter(|value| !value.is_null());
        let is_optional = ["isOptional", "is_optional"]
            .iter()
            .any(|member| input.get(*member) == Some(&Value::Bool(true)));
        match param.or(default) {
            Some(value) => drop(values.insert(name.to_owned(), value.clone())),
            None if is_optional => {}
            None => return Err(format!("the input `{name}` has no value")),
        }
    }
    let unknown = params.keys().find(|name| {
        let is = |input: &Value| input.get("name").and_then(Value::as_str) == Some(name.as_str());
        !declared.iter().any(is)
    });
    match unknown {
        Some(name) => Err(format!("the param `{name}` is no declared input")),
        None => Ok(values),
    }
}

/// Writes the `values` into the declarations, as the platform's compiled operations have them.
pub(crate) fn write(root: &mut Value, values: &Map<String, Value>) {
    let pointers = ["/component/inputs", "/inputs"];
    for pointer in pointers {
        let declared = root.pointer_mut(pointer).and_then(Value::as_array_mut);
        for input in declared.into_iter().flatten() {
            let name = input.get("name").and_then(Value::as_str);
            let value = name.and_then(|name| values.get(name)).cloned();
            if let (Some(members), Some(value)) = (input.as_object_mut(), value) {
                members.insert("value".to_owned(), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn inputs_come_from_params_and_defaults() {
        let root = json!({
            "params": {"a": {"value": "x"}, "b": 3},
            "component": {"inputs": [{"name": "a"}, {"name": "b", "value": 1}, {"name": "c", "value": [1]},
                {"name": "d", "isOptional": true}]}
        });
        let values = values(&root).unwrap();
        assert_eq!(
            Value::Object(values.clone()),
            json!({"a": "x", "b": 3, "c": [1]})
        );
        let mut compiled = root;
        write(&mut compiled, &values);
        assert_eq!(
            compiled["component"]["inputs"][0],
            json!({"name": "a", "value": "x"})
        );
        assert_eq!(compiled["component"]["inputs"][1]["value"], 3);
        assert_eq!(compiled["component"]["inputs"][3].get("value"), None);
    }

    #[test]
    fn what_does_not_fit_the_declaration_says_which_input() {
        let table = [
            (
                json!({"component": {"inputs": [{"name": "a"}]}}),
                "`a` has no value",
            ),
            (
                json!({"params": {"b": {"value": 1}}, "component": {}}),
                "`b` is no declared",
            ),
            (
                json!({"component": {"inputs": [{"type": "str"}]}}),
                "no name",
            ),
            (
                json!({"params": {"a": {"ref": "ops.x", "value": "outputs.y"}}, "component": {"inputs": [{"name": "a"}]}}),
                "reference",
            ),
        ];
        for (root, word) in table {
            let why = values(&root).unwrap_err();
            assert!(why.contains(word), "{why}");
        }
        assert_eq!(values(&json!({})).unwrap(), Map::new());
    }
}
