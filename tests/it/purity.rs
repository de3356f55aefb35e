//! The core stays pure: no runtime, no server, no files, no clock.

use std::fs;
use std::path::{Path, PathBuf};

/// Modules that may touch the world; everything else under `src` is pure.
const EDGES: [&str; 8] = [
    "src/paths.rs",
    "src/main.rs",
    "src/cli.rs",
    "src/cli/",
    "src/serve.rs",
    "src/serve/",
    "src/kubernetes.rs",
    "src/kubernetes/",
];

/// What a pure module must not name.
const FORBIDDEN: [&str; 16] = [
    "tokio",
    "tonic",
    "kube::",
    "k8s_openapi",
    "prometheus::",
    "axum",
    "clap",
    "std::fs",
    "std::io",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "Instant",
    "SystemTime",
    "println!",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Code without comments, which may well speak of what it avoids.
fn code(text: &str) -> String {
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

fn violations(file: &str, text: &str) -> Vec<String> {
    let code = code(text);
    let words = |word: &str| {
        let whole = |at: usize| {
            let before = code[..at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
        };
        code.match_indices(word).any(|(at, _)| whole(at))
    };
    // `use std::{fs, io}` names the same as `use std::fs`.
    let grouped = |word: &str| {
        word.strip_prefix("std::").is_some_and(|part| {
            code.split("std::{").skip(1).any(|rest| {
                let group = rest.split(';').next().unwrap_or_default();
                group
                    .split(|c: char| !c.is_alphanumeric() && c != '_')
                    .any(|name| name == part)
            })
        })
    };
    FORBIDDEN
        .iter()
        .filter(|word| words(word) || grouped(word))
        .map(|word| format!("{file} uses {word}"))
        .collect()
}

#[test]
fn pure_modules_touch_nothing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    assert!(files.len() > 40, "the sources were not found");
    let mut found = Vec::new();
    for path in files {
        let name = path
            .strip_prefix(root)
            .expect("inside")
            .to_string_lossy()
            .replace('\\', "/");
        if !EDGES.iter().any(|edge| name.starts_with(edge)) {
            found.extend(violations(
                &name,
                &fs::read_to_string(&path).expect("a source"),
            ));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The test itself can fail.
#[test]
fn a_module_that_reads_the_clock_is_caught() {
    assert_eq!(
        violations("x.rs", "use std::time::Instant;"),
        ["x.rs uses Instant"]
    );
    assert_eq!(
        violations("x.rs", "use std::{fmt, fs};"),
        ["x.rs uses std::fs"]
    );
    assert!(violations("x.rs", "// Instant\nlet instants = 3;").is_empty());
}
