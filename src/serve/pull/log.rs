//! Step times in log lines. A line's place in its file numbers it, so that
//! lines are taken once, also over restarts.

use super::Found;
use super::config::Lines;
use super::template::Fields;
use crate::paths;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What is read of a file at a time.
const MOST_BYTES: u64 = 4 << 20;
/// What starts the names of marks.
const MARK: &str = "log:";
/// Files that one source may mean.
const MOST_FILES: usize = 1000;

pub(super) struct Reader {
    lines: Lines,
    files: HashMap<PathBuf, Place>,
    /// Places after what was read last, until it is taken.
    read: HashMap<PathBuf, Place>,
}

#[derive(Clone, Copy, Default, PartialEq)]
struct Place {
    inode: u64,
    /// Bytes of this file that were read.
    read: u64,
    /// Bytes of the files that had this name before.
    before: u64,
}

impl Reader {
    /// Goes on from where files were read up to before.
    pub(super) fn new(lines: Lines, marks: &HashMap<String, String>) -> Self {
        let place = |(name, mark): (&String, &String)| {
            let path = name.strip_prefix(MARK)?;
            let mut numbers = mark.split(' ').map(str::parse::<u64>);
            let mut number = || numbers.next()?.ok();
            let place = Place {
                inode: number()?,
                read: number()?,
                before: number()?,
            };
            Some((PathBuf::from(path), place))
        };
        Self {
            lines,
            files: marks.iter().filter_map(place).collect(),
            read: HashMap::new(),
        }
    }

    /// What was read last was taken: the marks to go on from.
    pub(super) fn taken(&mut self) -> Vec<(String, String)> {
        let read = std::mem::take(&mut self.read);
        let marks = read.iter().map(|(path, place)| {
            let Place {
                inode,
                read,
                before,
            } = place;
            let name = format!("{MARK}{}", path.display());
            (name, format!("{inode} {read} {before}"))
        });
        let marks = marks.collect();
        self.files.extend(read);
        marks
    }

    /// What came since the last time.
    pub(super) fn read(&mut self) -> Result<Vec<Found>, String> {
        let paths = paths::matching(Path::new(&self.lines.path))
            .map_err(|error| format!("{}: {error}", self.lines.path))?;
        let mut all = Vec::new();
        for path in paths.into_iter().take(MOST_FILES) {
            let place = self.files.get(&path).copied().unwrap_or_default();
            // One that cannot be read does not keep the others.
            let (text, place) = match more(&path, place) {
                Ok(more) => more,
                Err(error) => {
                    tracing::debug!(path = %path.display(), %error, "a log cannot be read");
                    continue;
                }
            };
            let start = place.before + place.read - text.len() as u64;
            let steps = self.steps(&text, start);
            let before = self.files.get(&path).copied().unwrap_or_default();
            if place != before {
                self.read.insert(path.clone(), place);
            }
            if !steps.is_empty() {
                let name = |part: Option<&std::ffi::OsStr>| {
                    part.unwrap_or_default().to_string_lossy().into_owned()
                };
                let fields = Fields::from([
                    ("file".to_owned(), name(path.file_stem())),
                    ("path".to_owned(), path.display().to_string()),
                ]);
                all.push(Found { fields, steps });
            }
        }
        Ok(all)
    }

    fn steps(&self, text: &str, start: u64) -> Vec<(u64, f64)> {
        self.lines
            .pattern
            .captures_iter(text)
            .filter_map(|found| {
                let time = found.name("time")?;
                let seconds = time.as_str().parse::<f64>().ok()? * self.lines.scale;
                // Counted from 1.
                let number = start + time.start() as u64 + 1;
                (seconds.is_finite() && seconds > 0.0).then_some((number, seconds))
            })
            .collect()
    }
}

/// Whole lines after a place, and the place after them. A file that is
/// another than before, or shorter, is read from its start.
fn more(path: &Path, place: Place) -> io::Result<(String, Place)> {
    let mut file = File::open(path)?;
    let facts = file.metadata()?;
    let mut place = place;
    let another = place.inode != 0 && (place.inode != facts.ino() || facts.len() < place.read);
    if another {
        place.before += place.read;
        place.read = 0;
    }
    place.inode = facts.ino();
    file.seek(SeekFrom::Start(place.read))?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    // Half a line is left for the next time, unless there is no end to it.
    let end = bytes.iter().rposition(|b| *b == b'\n').map(|i| i + 1);
    let whole = end.unwrap_or(if bytes.len() as u64 == MOST_BYTES {
        bytes.len()
    } else {
        0
    });
    bytes.truncate(whole);
    place.read += whole as u64;
    // Anything that is no text is made into something of the same length.
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => error
            .into_bytes()
            .into_iter()
            .map(|b| if b.is_ascii() { char::from(b) } else { '?' })
            .collect(),
    };
    Ok((text, place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn lines_are_read_once_through_halves_and_rotation() {
        let folder = std::env::temp_dir().join(format!("stepcast-log-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("train-a.log");
        let lines = Lines {
            path: folder.join("train-*.log").display().to_string(),
            pattern: regex::Regex::new(r"step_time=(?P<time>[0-9.]+)").expect("a pattern"),
            scale: 1.0,
        };
        let mut reader = Reader::new(lines.clone(), &HashMap::new());
        let mut file = File::create(&path).expect("a file");
        write!(file, "start\nstep_time=0.5 s\nstep_ti").expect("written");
        let times = |found: &[Found]| -> Vec<f64> {
            found
                .iter()
                .flat_map(|f| f.steps.iter().map(|s| s.1))
                .collect()
        };
        assert_eq!(times(&reader.read().expect("read")), [0.5]);
        let first = reader.read().expect("read");
        assert_eq!(times(&first), [0.5], "not taken, so again");
        reader.taken();
        assert_eq!(first[0].fields["file"], "train-a");
        write!(file, "me=0.6\nstep_time=0.7\n").expect("written");
        let second = reader.read().expect("read");
        assert_eq!(times(&second), [0.6, 0.7]);
        let marks = reader.taken();
        assert!(second[0].steps[0].0 > first[0].steps[0].0);
        assert_eq!(times(&reader.read().expect("read")), [0.0; 0]);
        std::fs::rename(&path, folder.join("old")).expect("rotated");
        std::fs::write(&path, "step_time=0.8\n").expect("written");
        // A restart, too, goes on from the marks.
        let mut reader = Reader::new(lines, &marks.into_iter().collect());
        let third = reader.read().expect("read");
        assert_eq!(times(&third), [0.8]);
        assert!(third[0].steps[0].0 > second[0].steps[1].0, "numbers go on");
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
