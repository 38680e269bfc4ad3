//! Which models a server has, and how long a prompt each takes.

use serde_json::Value;

/// A model that a server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServedModel {
    /// The name to ask for.
    pub id: String,
    /// Other names of the same model.
    pub aliases: Vec<String>,
    /// How many tokens prompt and reply may have together, where the server says so: vLLM's
    /// `max_model_len`, llama.cpp's `n_ctx` of one slot.
    pub window: Option<u64>,
}

impl ServedModel {
    fn read(entry: &Value) -> Option<Self> {
        let aliases = entry.get("aliases").and_then(Value::as_array);
        let texts = |texts: &Vec<Value>| {
            let texts = texts.iter().filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        };
        Some(Self {
            id: entry.get("id")?.as_str()?.to_owned(),
            aliases: aliases.map(texts).unwrap_or_default(),
            window: entry
                .get("max_model_len")
                .and_then(Value::as_u64)
                .or_else(|| entry.pointer("/meta/n_ctx").and_then(Value::as_u64)),
        })
    }

    fn is_called(&self, name: &str) -> bool {
        self.id == name || self.aliases.iter().any(|alias| alias == name)
    }
}

/// The models in the answer to `GET /models`; `None` where it is no list.
pub(super) fn list(body: &Value) -> Option<Vec<ServedModel>> {
    let entries = body.get("data")?.as_array()?;
    Some(entries.iter().filter_map(ServedModel::read).collect())
}

/// The model that a server uses for `name`: the one so called, or the only one, since a server with
/// one model may take any name.
pub(super) fn pick<'a>(models: &'a [ServedModel], name: &str) -> Option<&'a ServedModel> {
    let named = models.iter().find(|model| model.is_called(name));
    named.or(match models {
        [only] => Some(only),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_model_is_found_by_its_names_or_by_being_the_only_one() {
        let entry = json!({"id": "a", "aliases": ["b"], "max_model_len": 2048});
        let two = list(&json!({"data": [entry, {"id": "c"}, {"no": "id"}, 7]})).unwrap();
        assert_eq!(two.len(), 2);
        assert_eq!(pick(&two, "a").unwrap().window, Some(2048));
        assert_eq!(pick(&two, "b").unwrap().id, "a");
        assert_eq!(pick(&two, "c").unwrap().window, None);
        assert_eq!(pick(&two, "d"), None);
        let one = list(&json!({"data": [{"id": "a", "meta": {"n_ctx": 4096}}]})).unwrap();
        assert_eq!(pick(&one, "d").unwrap().window, Some(4096));
    }

    #[test]
    fn what_is_no_list_is_none() {
        for body in [json!({}), json!({"data": {}}), json!([])] {
            assert_eq!(list(&body), None);
        }
    }
}
