//! Text with `${field}` in it.

use regex::Regex;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What a source says of a job.
pub(super) type Fields = BTreeMap<String, String>;

/// A text with places to fill.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Template(pub(super) String);

impl Template {
    /// The text with every place filled.
    pub(super) fn fill(&self, fields: &Fields) -> Result<String, String> {
        static PLACE: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"\$\{([^}]*)\}").expect("a pattern"));
        let mut missing = None;
        let filled = PLACE.replace_all(&self.0, |place: &regex::Captures<'_>| {
            let name = &place[1];
            fields.get(name).cloned().unwrap_or_else(|| {
                missing.get_or_insert_with(|| name.to_owned());
                String::new()
            })
        });
        match missing {
            Some(name) => {
                let there: Vec<&str> = fields.keys().map(String::as_str).collect();
                Err(format!(
                    "nothing is called `{name}` here; there are: {}",
                    there.join(", ")
                ))
            }
            None => Ok(filled.into_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_and_a_missing_one_is_named() {
        let fields = Fields::from([("job".to_owned(), "a".to_owned())]);
        let fill = |text: &str| Template(text.into()).fill(&fields);
        assert_eq!(fill("train-${job}!"), Ok("train-a!".into()));
        let error = fill("${batch}").expect_err("missing");
        assert!(
            error.contains("`batch`") && error.contains("job"),
            "{error}"
        );
    }
}
