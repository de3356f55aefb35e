//! Reads a cluster file of either form.

use super::labels::resolve;
use super::object::NodeObject;
use super::{Cluster, Defaults, Node, Role, short};
use crate::input::{Problems, Tree, parse};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// A cluster file over this is refused unread.
pub const MAX_CLUSTER_BYTES: u64 = 256 << 20;

/// A cluster's text and where it came from.
#[derive(Clone, Copy)]
pub struct ClusterFile<'a> {
    /// The name in error messages.
    pub name: &'a str,
    /// The text.
    pub text: &'a str,
}

/// Either form, decided by its top-level keys in one pass: nodes of a
/// Kubernetes list are read as what they are, everything else as a tree.
struct Document {
    kind: Option<String>,
    items: Option<Vec<NodeObject>>,
    rest: Vec<(String, Tree)>,
}

impl ClusterFile<'_> {
    /// A cluster of the short form that is parsed already; `text` is not used.
    pub fn read_tree(&self, tree: &Tree, defaults: &Defaults) -> Result<Cluster, Problems> {
        short::read(self.name, tree, defaults)
    }

    /// The cluster, or everything that is wrong with the file.
    pub fn read(&self, defaults: &Defaults) -> Result<Cluster, Problems> {
        let whole = |found: String, hint: Option<&str>| {
            let expected = "a cluster: `nodes: […]`, or what `kubectl get nodes -o yaml` prints";
            Problems::whole_file(self.name, found, expected.into(), hint.map(str::to_owned))
        };
        if self.text.len() as u64 > MAX_CLUSTER_BYTES {
            let found = format!("{} bytes", self.text.len());
            return Err(whole(found, Some("a cluster file has at most 256 MiB")));
        }
        if self.text.trim().is_empty() {
            return Err(whole("an empty file".into(), None));
        }
        let document: Document = parse(self.text).map_err(|error| whole(error, None))?;
        match document {
            Document {
                items: Some(items),
                kind,
                rest,
            } => {
                let kind = kind.unwrap_or_default();
                if rest.iter().any(|(key, _)| key == "nodes") {
                    let hint = "keep one of the two";
                    return Err(whole("both `items` and `nodes`".into(), Some(hint)));
                }
                if kind != "List" && kind != "NodeList" {
                    let hint = "`kind` must be List or NodeList";
                    return Err(whole(
                        format!("`items` under the kind `{kind}`"),
                        Some(hint),
                    ));
                }
                self.resolve_objects(&items, defaults)
            }
            Document { kind, rest, .. } => {
                if kind.as_deref() == Some("Node") {
                    let hint = "`kubectl get nodes -o yaml` prints a list; wrap the node in one";
                    return Err(whole("a single Node".into(), Some(hint)));
                }
                let mut entries = rest;
                if let Some(kind) = kind {
                    entries.push(("kind".into(), Tree::Text(kind)));
                }
                short::read(self.name, &Tree::Map(entries), defaults)
            }
        }
    }

    fn resolve_objects(
        &self,
        items: &[NodeObject],
        defaults: &Defaults,
    ) -> Result<Cluster, Problems> {
        let mut cluster = Cluster::default();
        let mut names = HashSet::new();
        for (i, object) in items.iter().enumerate() {
            let name = &object.metadata.name;
            if object.kind.as_deref().is_some_and(|kind| kind != "Node") {
                let kind = object.kind.as_deref().unwrap_or_default();
                cluster
                    .warnings
                    .push(format!("`{name}` is a {kind}, not a Node: left out"));
                continue;
            }
            if name.is_empty() || !names.insert(name) {
                let found = if name.is_empty() {
                    format!("items[{i}] without a name")
                } else {
                    format!("a second node named `{name}`")
                };
                let expected = "a name of its own for every node".into();
                return Err(Problems::whole_file(self.name, found, expected, None));
            }
            cluster.nodes.push(Arc::new(resolve(object, defaults)));
        }
        leave_processors_out(&mut cluster.nodes);
        Ok(cluster)
    }
}

/// Where some nodes bring accelerators, the processors of others are there to
/// run the cluster, not to hold the step up.
pub fn leave_processors_out(nodes: &mut [Arc<Node>]) {
    let accelerated = |n: &Arc<Node>| n.accelerators.is_some() && n.unusable.is_none();
    if !nodes.iter().any(accelerated) {
        return;
    }
    for node in nodes {
        if node.role == Role::Worker && node.accelerators.is_none() && node.unusable.is_none() {
            Arc::make_mut(node).unusable =
                Some("it has no accelerator and others do; name it to use it".into());
        }
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(DocumentVisitor)
    }
}

struct DocumentVisitor;

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map with the key `nodes` or `items`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
        let mut document = Document {
            kind: None,
            items: None,
            rest: Vec::new(),
        };
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "kind" if document.kind.is_none() => document.kind = Some(map.next_value()?),
                "items" if document.items.is_none() => document.items = Some(map.next_value()?),
                _ => {
                    let doubled = ["kind", "items"].contains(&key.as_str());
                    if doubled || document.rest.iter().any(|(k, _)| *k == key) {
                        return Err(serde::de::Error::custom(format!(
                            "the key `{key}` stands twice"
                        )));
                    }
                    document.rest.push((key, map.next_value()?));
                }
            }
        }
        Ok(document)
    }
}
