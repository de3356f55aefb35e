//! A Kubernetes Node, as far as its facts go.

use serde::Deserialize;
use std::collections::BTreeMap;

/// A Node object; every other field is ignored.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeObject {
    /// `kind`, where the list repeats it.
    pub kind: Option<String>,
    /// Name, labels, annotations.
    pub metadata: Metadata,
    /// What the operator wants.
    pub spec: Spec,
    /// What the kubelet reports.
    pub status: Status,
}

/// Name, labels, annotations.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// The node's name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its version, for watches.
    #[serde(rename = "resourceVersion")]
    pub resource_version: Option<String>,
}

/// What the operator wants.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// Cordoned.
    pub unschedulable: bool,
    /// Taints.
    pub taints: Vec<Taint>,
}

/// One taint.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its effect.
    pub effect: String,
}

/// What the kubelet reports.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Resources that pods can have, as quantities in text.
    pub allocatable: BTreeMap<String, Quantity>,
    /// Conditions.
    pub conditions: Vec<Condition>,
}

/// One condition.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// Its type, such as `Ready`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
}

/// A resource quantity, which YAML may show as a number.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Quantity {
    /// As text, with a suffix.
    Text(String),
    /// As a number.
    Number(f64),
}

impl Quantity {
    /// The amount: `8`, `7910m`, `16Gi`.
    pub fn amount(&self) -> Option<f64> {
        let text = match self {
            Self::Number(number) => return Some(*number),
            Self::Text(text) => text.trim(),
        };
        let split = text
            .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-' || c == '+'))
            .unwrap_or(text.len());
        let number: f64 = text[..split].parse().ok()?;
        let scale = match &text[split..] {
            "" => 1.0,
            "m" => 1e-3,
            "k" => 1e3,
            "M" => 1e6,
            "G" => 1e9,
            "Ki" => 1024.0,
            "Mi" => 1024.0 * 1024.0,
            "Gi" => 1024.0 * 1024.0 * 1024.0,
            _ => return None,
        };
        Some(number * scale)
    }
}
