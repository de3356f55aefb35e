//! YAML or JSON as a tree that keeps the order of keys and refuses doubles.

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// A number, with whether it was written as a whole one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A whole number.
    Integer(i128),
    /// Any other, `.nan` and `.inf` included.
    Float(f64),
}

impl Number {
    /// As a float.
    pub const fn as_f64(self) -> f64 {
        match self {
            Self::Integer(i) => i as f64,
            Self::Float(f) => f,
        }
    }
}

/// A parsed document.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    /// Nothing, or `null`.
    Null,
    /// True or false.
    Bool(bool),
    /// A number.
    Number(Number),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Tree>),
    /// Keys and values in the order of the file.
    Map(Vec<(String, Tree)>),
}

impl Tree {
    /// The value under `key`, in a map.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(entries) => entries.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// What it is, in words, with the value where it is short.
    pub fn describe(&self) -> String {
        match self {
            Self::Null => "nothing".to_owned(),
            Self::Bool(b) => format!("`{b}`"),
            Self::Number(Number::Integer(i)) => format!("`{i}`"),
            Self::Number(Number::Float(x)) => format!("`{x}`"),
            Self::Text(text) if text.is_empty() => "an empty text".to_owned(),
            Self::Text(text) if text.chars().count() > 60 => {
                let start: String = text.chars().take(57).collect();
                format!("`{start}…`")
            }
            Self::Text(text) => format!("`{text}`"),
            Self::List(items) => format!("a list of {}", items.len()),
            Self::Map(entries) => match entries.as_slice() {
                [] => "an empty map".to_owned(),
                [(key, _)] => format!("a map with the key `{key}`"),
                [(key, _), ..] => {
                    format!("a map with the keys `{key}` and {} more", entries.len() - 1)
                }
            },
        }
    }
}

/// Parses JSON where the text is JSON, YAML otherwise. The error says where.
pub fn parse<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let json = text.trim_start().starts_with(['{', '[']);
    if json {
        match serde_json::from_str(text) {
            Ok(value) => return Ok(value),
            // YAML's flow style begins like JSON; if YAML can read it, it was that.
            Err(error) => return serde_yaml::from_str(text).map_err(|_| error.to_string()),
        }
    }
    serde_yaml::from_str(text).map_err(|error| error.to_string())
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("plain YAML or JSON without tags")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Number(Number::Integer(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Number(Number::Integer(value.into())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Number(Number::Float(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Tree, E> {
        Ok(Tree::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut entries: Vec<(String, Tree)> = Vec::new();
        while let Some(key) = map.next_key::<Key>()? {
            if entries.iter().any(|(k, _)| *k == key.0) {
                return Err(de::Error::custom(format!(
                    "the key `{}` stands twice",
                    key.0
                )));
            }
            entries.push((key.0, map.next_value()?));
        }
        Ok(Tree::Map(entries))
    }
}

/// A key, which YAML lets be a number or a truth value.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Tree::deserialize(deserializer)? {
            Tree::Text(text) => Ok(Self(text)),
            Tree::Bool(b) => Ok(Self(b.to_string())),
            Tree::Number(Number::Integer(i)) => Ok(Self(i.to_string())),
            Tree::Number(Number::Float(x)) => Ok(Self(x.to_string())),
            Tree::Null => Ok(Self("null".to_owned())),
            other => Err(de::Error::custom(format!(
                "a key must be text, found {}",
                other.describe()
            ))),
        }
    }
}
