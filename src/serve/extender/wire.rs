//! The extender's messages. The scheduler's Go types carry no JSON tags: keys
//! are written in `PascalCase` and read in any case.

use serde_json::{Map, Value, json};

/// A request of the scheduler.
pub(super) struct Request {
    pub(super) pod: Value,
    /// Nodes that have room for it.
    pub(super) names: Vec<String>,
    /// The nodes whole, where they came so.
    nodes: Option<Vec<Value>>,
}

fn get<'a>(object: &'a Value, key: &str) -> Option<&'a Value> {
    let entries = object.as_object()?;
    let found = entries.iter().find(|(k, _)| k.eq_ignore_ascii_case(key));
    found
        .map(|(_, value)| value)
        .filter(|value| !value.is_null())
}

impl Request {
    pub(super) fn read(body: &[u8]) -> Result<Self, String> {
        let whole: Value =
            serde_json::from_slice(body).map_err(|error| format!("not a request: {error}"))?;
        let pod = get(&whole, "pod").ok_or("a request without a pod")?.clone();
        let items = get(&whole, "nodes").and_then(|n| get(n, "items")?.as_array());
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let (names, nodes) = match (get(&whole, "nodenames").and_then(Value::as_array), items) {
            (Some(names), _) => (names.iter().filter_map(text).collect(), None),
            (None, Some(items)) => {
                let name = |node: &Value| text(&node["metadata"]["name"]).unwrap_or_default();
                (items.iter().map(name).collect(), Some(items.clone()))
            }
            (None, None) => return Err("a request without nodes".into()),
        };
        Ok(Self { pod, names, nodes })
    }

    /// The answer that changes nothing.
    pub(super) fn pass(&self, verb: &str) -> String {
        match verb {
            "filter" => self.filtered(|_| None),
            _ => self.prioritized(&vec![0; self.names.len()]),
        }
    }

    /// The same without a request: nobody can be named.
    pub(super) fn pass_nothing(verb: &str) -> String {
        match verb {
            "filter" => json!({"Error": "stepcast cannot read the request"}).to_string(),
            _ => "[]".to_owned(),
        }
    }

    /// The nodes but for those with a reason against them.
    pub(super) fn filtered(&self, why_not: impl Fn(usize) -> Option<String>) -> String {
        let mut failed = Map::new();
        let mut kept = Vec::new();
        for (i, name) in self.names.iter().enumerate() {
            match why_not(i) {
                Some(why) => {
                    failed.insert(name.clone(), Value::String(why));
                }
                None => kept.push(i),
            }
        }
        let names: Vec<&String> = kept.iter().map(|&i| &self.names[i]).collect();
        let nodes = self.nodes.as_ref().map(|nodes| {
            let items: Vec<&Value> = kept.iter().map(|&i| &nodes[i]).collect();
            json!({"metadata": {}, "items": items})
        });
        json!({
            "Nodes": nodes,
            "NodeNames": if nodes.is_none() { json!(names) } else { Value::Null },
            "FailedNodes": failed,
            "FailedAndUnresolvableNodes": {},
            "Error": "",
        })
        .to_string()
    }

    /// A score for each node.
    pub(super) fn prioritized(&self, scores: &[i64]) -> String {
        let all: Vec<Value> = self
            .names
            .iter()
            .zip(scores)
            .map(|(name, score)| json!({"Host": name, "Score": score}))
            .collect();
        Value::Array(all).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_in_any_case_and_answered_in_their_own() {
        let cached = br#"{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":["a","b"]}"#;
        let request = Request::read(cached).expect("a request");
        assert_eq!(request.names, ["a", "b"]);
        let answer: Value =
            serde_json::from_str(&request.filtered(|i| (i == 0).then(|| "no".into())))
                .expect("JSON");
        assert_eq!(answer["NodeNames"], json!(["b"]));
        assert_eq!(answer["FailedNodes"], json!({"a": "no"}));
        assert_eq!(answer["Nodes"], Value::Null);
        let whole =
            br#"{"pod":{},"nodes":{"items":[{"metadata":{"name":"a","labels":{"x":"y"}}}]}}"#;
        let request = Request::read(whole).expect("a request");
        let answer: Value = serde_json::from_str(&request.pass("filter")).expect("JSON");
        assert_eq!(answer["Nodes"]["items"][0]["metadata"]["labels"]["x"], "y");
        assert_eq!(request.pass("prioritize"), r#"[{"Host":"a","Score":0}]"#);
        assert!(Request::read(b"[]").is_err() && Request::read(b"{}").is_err());
    }
}
