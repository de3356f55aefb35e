//! Files that a path means: itself, or several where its last part holds `*`.

use std::io;
use std::path::{Path, PathBuf};

/// The files, sorted. A path without `*` is taken as it is, there or not.
pub(crate) fn matching(path: &Path) -> io::Result<Vec<PathBuf>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let Some((head, tail)) = name.split_once('*') else {
        return Ok(vec![path.to_owned()]);
    };
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder.unwrap_or(Path::new(".")))?
        .filter_map(Result::ok)
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail)
        })
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    found.sort();
    Ok(found)
}
