//! What is wrong with a file, said so that its author can mend it.

use std::fmt;

/// One thing that is wrong in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, as its author named it.
    pub file: String,
    /// Path of the key, such as `nodes[1].nic_gbps`; empty for the whole file.
    pub path: String,
    /// What was found.
    pub found: String,
    /// What would be right.
    pub expected: String,
    /// How to mend it, where something can be said.
    pub hint: Option<String>,
}

impl Problem {
    /// What is wrong, without where.
    pub fn what(&self) -> String {
        let mut text = format!("found {}, expected {}", self.found, self.expected);
        if let Some(hint) = &self.hint {
            text.push_str("\n  hint: ");
            text.push_str(hint);
        }
        text
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if !self.path.is_empty() {
            write!(f, ": {}", self.path)?;
        }
        write!(f, ": {}", self.what())
    }
}

/// Everything that is wrong with the input; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// `Err` with the problems, `Ok` when there are none.
    pub fn check(problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Self(problems))
        }
    }

    /// One problem with a whole file.
    pub fn whole_file(file: &str, found: String, expected: String, hint: Option<String>) -> Self {
        Self(vec![Problem {
            file: file.to_owned(),
            path: String::new(),
            found,
            expected,
            hint,
        }])
    }

    /// Each problem, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }

    /// The same with another's problems after its own.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

/// The few `known` names nearest to `name`, best first; none when all are far.
pub fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = name.to_lowercase();
    let mut scored: Vec<(f64, &str)> = known
        .into_iter()
        .map(|k| (strsim::jaro_winkler(&wanted, &k.to_lowercase()), k))
        .filter(|(score, _)| *score > 0.75)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().take(4).map(|(_, k)| k).collect()
}
