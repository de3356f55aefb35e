//! Where a calibration comes from.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// What a calibration was fitted on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// When, in seconds since 1970; absent where no clock was at hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fitted_at: Option<u64>,
    /// The version whose values the parameters were drawn towards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drawn_towards: Option<String>,
    /// Runs that were fitted on, by group.
    pub runs: BTreeMap<String, usize>,
    /// Mean error on them, as a fraction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// Mean error on runs that each part of a fit left out, as a fraction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out_error: Option<f64>,
    /// Fingerprints of all runs that it has seen, in hexadecimal in files.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "write_fingerprints",
        deserialize_with = "read_fingerprints"
    )]
    pub fitted_on: Vec<u32>,
    /// Parameters that the data could not determine: held where they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undetermined: Vec<String>,
}

fn write_fingerprints<S: Serializer>(all: &[u32], serializer: S) -> Result<S::Ok, S::Error> {
    let words: Vec<String> = all.iter().map(|f| format!("{f:08x}")).collect();
    serializer.serialize_str(&words.join(" "))
}

fn read_fingerprints<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.split_whitespace()
        .map(|word| u32::from_str_radix(word, 16).map_err(serde::de::Error::custom))
        .collect()
}
