//! Label selectors as Kubernetes writes them: `gpu=a100,!spot,zone in (a,b)`.

use super::Node;
use std::str::FromStr;

/// What labels must be like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

impl Selector {
    /// Whether a node's labels are like that.
    pub fn matches(&self, node: &Node) -> bool {
        self.0.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => node
                .label(key)
                .is_some_and(|found| values.iter().any(|v| v == found)),
            Requirement::NotIn(key, values) => node
                .label(key)
                .is_none_or(|found| values.iter().all(|v| v != found)),
            Requirement::Exists(key) => node.label(key).is_some(),
            Requirement::Absent(key) => node.label(key).is_none(),
        })
    }
}

const FORM: &str = "expected requirements such as `gpu=a100`, `tier!=spot`, `zone in (a,b)`, `fast` or `!slow`, with commas between them";

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |part: &str| format!("found `{part}`, {FORM}");
        parts(text)
            .map_err(|()| wrong(text))?
            .into_iter()
            .map(|part| requirement(part).ok_or_else(|| wrong(part)))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// Splits at commas that no parenthesis holds.
fn parts(text: &str) -> Result<Vec<&str>, ()> {
    let (mut depth, mut from, mut found) = (0_u32, 0, Vec::new());
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1).ok_or(())?,
            ',' if depth == 0 => {
                found.push(text[from..i].trim());
                from = i + 1;
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err(());
    }
    if !text.trim().is_empty() {
        found.push(text[from..].trim());
    }
    Ok(found)
}

fn requirement(part: &str) -> Option<Requirement> {
    let key = |text: &str| {
        let text = text.trim();
        let fine = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        (!text.is_empty() && text.chars().all(fine)).then(|| text.to_owned())
    };
    let value = |text: &str| {
        let text = text.trim();
        let fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        text.chars().all(fine).then(|| text.to_owned())
    };
    if let Some((left, right)) = part.split_once("!=") {
        return Some(Requirement::NotIn(key(left)?, vec![value(right)?]));
    }
    if let Some((left, right)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Some(Requirement::In(key(left)?, vec![value(right)?]));
    }
    if let Some((left, list)) = part.split_once('(') {
        let values: Option<Vec<String>> = list.strip_suffix(')')?.split(',').map(value).collect();
        let mut words = left.split_whitespace();
        return match (words.next(), words.next(), words.next()) {
            (Some(name), Some("in"), None) => Some(Requirement::In(key(name)?, values?)),
            (Some(name), Some("notin"), None) => Some(Requirement::NotIn(key(name)?, values?)),
            _ => None,
        };
    }
    match part.strip_prefix('!') {
        Some(name) => key(name).map(Requirement::Absent),
        None => key(part).map(Requirement::Exists),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Node {
        let labels = [("fast", ""), ("gpu", "a100"), ("zone", "a")];
        Node {
            labels: labels
                .iter()
                .map(|(k, v)| ((*k).into(), (*v).into()))
                .collect(),
            ..Node::default()
        }
    }

    #[test]
    fn selectors_read_as_kubernetes_reads_them() {
        for (text, matches) in [
            ("", true),
            ("gpu=a100", true),
            ("gpu == a100, zone!=b", true),
            ("gpu=t4", false),
            ("zone in (a, b),fast", true),
            ("zone notin (a,b)", false),
            ("rack notin (a,b)", true),
            ("!spot", true),
            ("!fast", false),
            ("fast=", true),
        ] {
            let selector: Selector = text.parse().expect(text);
            assert_eq!(selector.matches(&node()), matches, "{text}");
        }
        for wrong in [
            "a b",
            "zone in a",
            "zone in (a",
            "=x",
            "a,,b",
            "zone within (a)",
            "a)",
        ] {
            assert!(wrong.parse::<Selector>().is_err(), "{wrong}");
        }
    }
}
