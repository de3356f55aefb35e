//! Reads a cluster file of either form.

use super::labels::resolve;
use super::object::NodeObject;
use super::{Cluster, Defaults, short};
use crate::input::{Problems, Tree, parse};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use std::fmt;

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
        for object in items {
            if object.kind.as_deref().is_some_and(|kind| kind != "Node") {
                let kind = object.kind.as_deref().unwrap_or_default();
                cluster.warnings.push(format!(
                    "`{}` is a {kind}, not a Node: left out",
                    object.metadata.name
                ));
                continue;
            }
            let resolved = resolve(object, defaults);
            cluster.warnings.extend(resolved.warnings);
            cluster.nodes.push(resolved.node);
        }
        let usable = |n: &&super::Node| n.unusable.is_none();
        if cluster
            .nodes
            .iter()
            .filter(usable)
            .all(|n| n.workers() == 0)
        {
            let mut why: Vec<String> = cluster
                .nodes
                .iter()
                .take(5)
                .map(|n| {
                    format!(
                        "{}: {}",
                        n.name,
                        n.unusable.as_deref().unwrap_or("no worker")
                    )
                })
                .collect();
            if cluster.nodes.is_empty() {
                why.push("the list is empty".into());
            }
            return Err(Problems::whole_file(
                self.name,
                format!("{} nodes, none of them usable ({})", cluster.nodes.len(), why.join("; ")),
                "at least one node with a known accelerator or processor that is ready and not cordoned".into(),
                Some("label nodes stepcast.dev/accelerator or stepcast.dev/cpu where discovery does not".into()),
            ));
        }
        Ok(cluster)
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
                "kind" => document.kind = Some(map.next_value()?),
                "items" => document.items = Some(map.next_value()?),
                _ => {
                    if document.rest.iter().any(|(k, _)| *k == key) {
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
