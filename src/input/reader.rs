//! Reads a tree field by field and keeps every problem on the way.

use super::problem::{Problem, Problems, near};
use super::tree::{Number, Tree};
use crate::units::{Unit, parse_quantity};
use std::cell::RefCell;
use std::fmt;

/// The largest whole number a count may be: beyond it floats lose units.
const MAX_COUNT: u64 = 1 << 53;

/// One file being read.
pub struct Reader<'a> {
    file: &'a str,
    problems: RefCell<Vec<Problem>>,
}

impl<'a> Reader<'a> {
    /// Begins to read `file`.
    pub const fn new(file: &'a str) -> Self {
        Self {
            file,
            problems: RefCell::new(Vec::new()),
        }
    }

    /// The root of its tree.
    pub const fn root<'r>(&'r self, tree: &'r Tree) -> Field<'r> {
        Field {
            reader: self,
            path: Path::Root,
            tree,
        }
    }

    /// The value, if nothing was wrong on the way to it.
    pub fn finish<T>(self, value: Option<T>) -> Result<T, Problems> {
        Problems::check(self.problems.into_inner())?;
        value.ok_or_else(|| {
            Problems::whole_file(
                self.file,
                "nothing usable".into(),
                "a document".into(),
                None,
            )
        })
    }
}

/// Where a field stands, as a chain up to the root.
#[derive(Clone, Copy)]
enum Path<'r> {
    Root,
    Key(&'r Path<'r>, &'r str),
    Index(&'r Path<'r>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Key(Self::Root, key) => f.write_str(key),
            Self::Key(parent, key) => write!(f, "{parent}.{key}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// One value of the file and where it stands.
#[derive(Clone, Copy)]
pub struct Field<'r> {
    reader: &'r Reader<'r>,
    path: Path<'r>,
    tree: &'r Tree,
}

impl<'r> Field<'r> {
    /// The value itself.
    pub const fn tree(&self) -> &'r Tree {
        self.tree
    }

    /// Keeps a problem with this field.
    pub fn problem(&self, expected: impl Into<String>, hint: Option<String>) {
        self.refuse(self.tree.describe(), expected, hint);
    }

    /// Keeps a problem, saying in other words what was found.
    pub fn refuse(
        &self,
        found: impl Into<String>,
        expected: impl Into<String>,
        hint: Option<String>,
    ) {
        self.reader.problems.borrow_mut().push(Problem {
            file: self.reader.file.to_owned(),
            path: self.path.to_string(),
            found: found.into(),
            expected: expected.into(),
            hint,
        });
    }

    /// A map with no other than these keys.
    pub fn object(&'r self, what: &str, keys: &'r [&'r str]) -> Option<Object<'r>> {
        let Tree::Map(entries) = self.tree else {
            self.problem(format!("{what}: a map with {}", list(keys)), None);
            return None;
        };
        for (key, value) in entries {
            if !keys.contains(&key.as_str()) {
                let field = Field {
                    path: Path::Key(&self.path, key),
                    tree: value,
                    ..*self
                };
                let hint = match near(key, keys.iter().copied()).first() {
                    Some(nearest) => format!("did you mean `{nearest}`?"),
                    None => format!("keys of {what} are {}", list(keys)),
                };
                field.refuse(
                    format!("the unknown key `{key}`"),
                    format!("a key of {what}"),
                    Some(hint),
                );
            }
        }
        Some(Object {
            field: self,
            entries,
        })
    }

    /// The items of a list; reports anything else.
    pub fn items(&'r self, what: &str) -> Vec<Field<'r>> {
        let Tree::List(items) = self.tree else {
            self.problem(what, None);
            return Vec::new();
        };
        items
            .iter()
            .enumerate()
            .map(|(i, tree)| Field {
                path: Path::Index(&self.path, i),
                tree,
                ..*self
            })
            .collect()
    }

    /// Text.
    pub fn text(&self, expected: &str) -> Option<&'r str> {
        match self.tree {
            Tree::Text(text) if !text.trim().is_empty() => Some(text),
            _ => {
                self.problem(expected, None);
                None
            }
        }
    }

    /// True or false.
    pub fn flag(&self) -> Option<bool> {
        if let Tree::Bool(b) = self.tree {
            Some(*b)
        } else {
            self.problem("true or false", None);
            None
        }
    }

    /// One of a few words.
    pub fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        if let Tree::Text(text) = self.tree
            && let Some((_, value)) = choices.iter().find(|(name, _)| name == text)
        {
            return Some(*value);
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let hint = match self.tree {
            Tree::Text(text) => near(text, names.iter().copied())
                .first()
                .map(|nearest| format!("did you mean `{nearest}`?")),
            _ => None,
        };
        self.problem(format!("one of {}", list(&names)), hint);
        None
    }

    /// A whole number from `least` on.
    pub fn count(&self, least: u64, what: &str) -> Option<u64> {
        let value = match self.tree {
            Tree::Number(Number::Integer(i)) => u64::try_from(*i).ok(),
            Tree::Number(Number::Float(x)) if x.fract() == 0.0 && *x >= 0.0 => Some(*x as u64),
            _ => None,
        };
        let value = value.filter(|v| (least..=MAX_COUNT).contains(v));
        if value.is_none() {
            self.problem(format!("{what}: a whole number of at least {least}"), None);
        }
        value
    }

    /// A whole number from `least` to `most`.
    pub fn count_within(&self, least: u64, most: u64, what: &str) -> Option<u64> {
        let value = self.count(least, what)?;
        if value > most {
            self.problem(format!("{what}: a whole number of at most {most}"), None);
            return None;
        }
        Some(value)
    }

    /// A whole number from `least` on that fits 32 bits.
    pub fn small_count(&self, least: u32, what: &str) -> Option<u32> {
        let value = self.count(least.into(), what)?;
        u32::try_from(value)
            .inspect_err(|_| self.problem(format!("{what}: at most {}", u32::MAX), None))
            .ok()
    }

    /// A finite number above zero, with or without a unit.
    pub fn positive(&self, unit: Unit) -> Option<f64> {
        self.quantity(unit, |x| x > 0.0, "above zero")
    }

    /// A finite number of zero or above, with or without a unit.
    pub fn non_negative(&self, unit: Unit) -> Option<f64> {
        self.quantity(unit, |x| x >= 0.0, "of at least zero")
    }

    fn quantity(&self, unit: Unit, allowed: impl Fn(f64) -> bool, range: &str) -> Option<f64> {
        let value = match self.tree {
            Tree::Number(number) => Some(number.as_f64()),
            Tree::Text(text) => parse_quantity(text, unit),
            _ => None,
        };
        match value {
            Some(x)
                if x.is_finite() && allowed(x) && (x == 0.0 || unit.plausible().contains(&x)) =>
            {
                value
            }
            Some(x) if x.is_finite() && allowed(x) => {
                let (least, most) = (
                    unit.plausible().start().to_owned(),
                    unit.plausible().end().to_owned(),
                );
                self.problem(
                    format!("{} between {least:e} and {most:e}", unit.expected()),
                    None,
                );
                None
            }
            Some(_) => {
                self.problem(format!("{} {range}", unit.expected()), None);
                None
            }
            None => {
                let hint = match self.tree {
                    Tree::Text(text) if text.starts_with(|c: char| c.is_ascii_digit()) => {
                        Some("the unit is not one of this quantity".to_owned())
                    }
                    _ => None,
                };
                self.problem(unit.expected(), hint);
                None
            }
        }
    }
}

/// A map of the file whose keys are all known.
pub struct Object<'r> {
    field: &'r Field<'r>,
    entries: &'r [(String, Tree)],
}

impl<'r> Object<'r> {
    /// The field of a key, if it is there and not null.
    pub fn get(&self, key: &'r str) -> Option<Field<'r>> {
        let (_, tree) = self.entries.iter().find(|(k, _)| k == key)?;
        (*tree != Tree::Null).then_some(Field {
            path: Path::Key(&self.field.path, key),
            tree,
            ..*self.field
        })
    }

    /// The field of a key that must be there.
    pub fn require(&self, key: &'r str, expected: &str) -> Option<Field<'r>> {
        let found = self.get(key);
        if found.is_none() {
            let missing = Field {
                path: Path::Key(&self.field.path, key),
                tree: &Tree::Null,
                ..*self.field
            };
            missing.refuse("nothing", expected, Some(format!("add the key `{key}`")));
        }
        found
    }
}

fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
    quoted.join(", ")
}
