//! Which data a tenant's tools may work on, by identifiers that a model can say.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use polyaxon_sandbox::AbsPath;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::contract::Refusal;
use super::session::Tenant;
use crate::manifest::{File, Tree};
use crate::path::{InvalidPath, RelPath};

/// The identifier of a bundle of data: 1 to 64 letters, digits and `_ . -`, of which the first is a
/// letter or digit. It is a name and no path.
///
/// # Examples
/// ```
/// use agent_loop::tools::InputId;
///
/// assert_eq!("orders-2026.q1".parse::<InputId>()?.as_str(), "orders-2026.q1");
/// assert!("../orders".parse::<InputId>().is_err());
/// # Ok::<(), agent_loop::tools::InvalidInputId>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct InputId(String);

/// A text that is no identifier of an input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an input is named by 1 to 64 letters, digits and `_ . -`, a letter or digit first")]
#[non_exhaustive]
pub struct InvalidInputId;

impl InputId {
    /// The identifier as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for InputId {
    type Err = InvalidInputId;

    fn from_str(text: &str) -> Result<Self, InvalidInputId> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        let begins = text.starts_with(|first: char| first.is_ascii_alphanumeric());
        match begins && text.len() <= 64 && text.bytes().all(fits) {
            true => Ok(Self(text.to_owned())),
            false => Err(InvalidInputId),
        }
    }
}

impl TryFrom<String> for InputId {
    type Error = InvalidInputId;

    fn try_from(text: String) -> Result<Self, InvalidInputId> {
        text.parse()
    }
}

impl From<InputId> for String {
    fn from(id: InputId) -> Self {
        id.0
    }
}

impl fmt::Display for InputId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JsonSchema for InputId {
    fn schema_name() -> Cow<'static, str> {
        "InputId".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "The identifier of an approved input.",
            "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$",
        })
    }
}

/// Data that was approved.
///
/// # Examples
/// ```
/// use agent_loop::tools::Bundle;
///
/// let bundle = Bundle::new().file("orders.csv", "amount\n1\n2\n")?;
/// # Ok::<(), agent_loop::InvalidPath>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a Bundle does nothing until it is approved"]
pub struct Bundle {
    pub(super) place: Place,
}

#[derive(Clone, Debug)]
pub(super) enum Place {
    /// Bytes that the controller holds.
    Files(Tree),
    /// A path of the sandbox.
    Sandbox(AbsPath),
}

impl Default for Bundle {
    fn default() -> Self {
        Self::new()
    }
}

impl Bundle {
    /// An empty folder, for [`file`](Self::file).
    pub fn new() -> Self {
        let place = Place::Files(Tree::new());
        Self { place }
    }

    /// What is at `path` in the sandbox: a mounted volume, an artifact of another run. It is given
    /// to commands as it is then, and nothing is copied or compared.
    pub fn in_sandbox(path: AbsPath) -> Self {
        let place = Place::Sandbox(path);
        Self { place }
    }

    /// Adds a file. It is put anew for every call, from the bytes that are held here: what an
    /// earlier command did to its copy does not matter. Of a bundle in the sandbox it makes one of
    /// files.
    ///
    /// # Errors
    /// Where `path` is no path inside a folder.
    pub fn file(
        mut self,
        path: impl AsRef<str>,
        bytes: impl Into<Vec<u8>>,
    ) -> Result<Self, InvalidPath> {
        let path = RelPath::parse(path.as_ref())?;
        let mut files = match self.place {
            Place::Files(files) => files,
            Place::Sandbox(_) => Tree::new(),
        };
        files.insert(path, File::new(bytes));
        self.place = Place::Files(files);
        Ok(self)
    }
}

/// The data that tenants may work on.
///
/// # Examples
/// ```
/// use agent_loop::tools::{ApprovedInputs, Bundle, Tenant};
///
/// let orders = Bundle::new().file("orders.csv", "amount\n1\n2\n")?;
/// let inputs = ApprovedInputs::new().approve(Tenant::new("acme"), "orders".parse()?, orders);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "ApprovedInputs do nothing until a controller has them"]
pub struct ApprovedInputs {
    bundles: HashMap<Tenant, BTreeMap<InputId, Bundle>>,
}

impl ApprovedInputs {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Approves a bundle for a tenant. Two tenants can use one identifier for two bundles.
    pub fn approve(mut self, tenant: Tenant, id: InputId, bundle: Bundle) -> Self {
        self.bundles.entry(tenant).or_default().insert(id, bundle);
        self
    }

    /// The bundles for `ids`. Whether another tenant has one of that name cannot be told from the
    /// refusal.
    pub(super) fn resolve<'a>(
        &self,
        tenant: &Tenant,
        ids: impl IntoIterator<Item = &'a InputId>,
    ) -> Result<ResolvedInputs, Refusal> {
        let own = self.bundles.get(tenant);
        let mut bundles = BTreeMap::new();
        for id in ids {
            let Some(bundle) = own.and_then(|own| own.get(id)) else {
                return Err(Refusal::new(format!("there is no approved input {id}")));
            };
            let path = match &bundle.place {
                Place::Files(_) => folder_of(id),
                Place::Sandbox(path) => path.as_str().to_owned(),
            };
            bundles.insert(id.clone(), (path, bundle.clone()));
        }
        Ok(ResolvedInputs { bundles })
    }
}

fn folder_of(id: &InputId) -> String {
    format!("inputs/{id}")
}

/// The approved bundles of a call.
#[derive(Clone, Debug)]
pub struct ResolvedInputs {
    bundles: BTreeMap<InputId, (String, Bundle)>,
}

impl ResolvedInputs {
    /// The path by which a command finds a bundle: a folder in its own folder, or a path of the
    /// sandbox.
    ///
    /// # Errors
    /// Where [`Tool::inputs`](super::Tool::inputs) has not named it.
    pub fn path(&self, id: &InputId) -> Result<&str, Refusal> {
        match self.bundles.get(id) {
            Some((path, _)) => Ok(path),
            None => Err(Refusal::new(format!("{id} is not an input of this tool"))),
        }
    }

    /// The files that have to be put, by their path in the folder of the call.
    pub(super) fn files(&self) -> Result<Tree, InvalidPath> {
        let mut all = Tree::new();
        for (folder, bundle) in self.bundles.values() {
            if let Place::Files(files) = &bundle.place {
                for (path, file) in files.iter() {
                    let path = RelPath::parse(&format!("{folder}/{path}"))?;
                    all.insert(path, Arc::clone(file));
                }
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_a_name_and_no_path() {
        let longest = "x".repeat(64);
        for text in ["a", "orders-2026.q1", "7_b", &longest] {
            assert_eq!(text.parse::<InputId>().unwrap().as_str(), text);
        }
        for text in [
            "",
            ".",
            "..",
            "-a",
            "a/b",
            "a b",
            "ä",
            "a\n",
            &format!("{longest}x"),
        ] {
            assert_eq!(text.parse::<InputId>(), Err(InvalidInputId), "{text:?}");
        }
        serde_json::from_str::<InputId>("\"../x\"").unwrap_err();
    }

    #[test]
    fn a_tenant_has_its_own_inputs_and_learns_nothing_of_others() {
        let (acme, other) = (Tenant::new("acme"), Tenant::new("other"));
        let orders: InputId = "orders".parse().unwrap();
        let secret: InputId = "secret".parse().unwrap();
        let bundle = Bundle::new().file("a/b.csv", "1").unwrap();
        let there = Bundle::in_sandbox("/data/orders".parse().unwrap());
        let inputs = ApprovedInputs::new()
            .approve(acme.clone(), orders.clone(), bundle)
            .approve(other.clone(), orders.clone(), there)
            .approve(other.clone(), secret.clone(), Bundle::new());

        let mine = inputs.resolve(&acme, [&orders]).unwrap();
        assert_eq!(mine.path(&orders), Ok("inputs/orders"));
        let files = mine.files().unwrap();
        let paths: Vec<_> = files.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["inputs/orders/a/b.csv"]);
        mine.path(&secret).unwrap_err();

        let theirs = inputs.resolve(&other, [&orders, &secret]).unwrap();
        assert_eq!(theirs.path(&orders), Ok("/data/orders"));
        assert_eq!(theirs.files().unwrap().len(), 0);

        let unknown: InputId = "unknown".parse().unwrap();
        let say = |id: &InputId| inputs.resolve(&acme, [id]).unwrap_err().to_string();
        assert_eq!(say(&secret).replace("secret", "unknown"), say(&unknown));
        inputs
            .resolve(&Tenant::new("nobody"), [&orders])
            .unwrap_err();
    }
}
