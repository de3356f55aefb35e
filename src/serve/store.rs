//! What outlives the process: reported steps and calibrations, in one file
//! that is whole after any crash.
//!
//! One thread writes. It takes all that waits as one transaction, and answers
//! only when that is on the disk.

use prometheus::Gauge;
use redb::backends::InMemoryBackend;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use tokio::sync::oneshot;

const JOBS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("jobs");
const PAST: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("past");
const MARKS: TableDefinition<'_, &str, &str> = TableDefinition::new("marks");
const CALIBRATIONS: TableDefinition<'_, u64, &str> = TableDefinition::new("calibrations");

/// The file's name.
const FILE: &str = "observations.redb";
/// Placements of jobs that went before: how many, and their bytes.
pub(crate) const MOST_PAST: usize = 1000;
const MOST_PAST_BYTES: usize = 64 << 20;
/// Changes that one transaction takes.
const TOGETHER: usize = 512;

/// Something to keep.
#[derive(Debug)]
pub(crate) enum Change {
    /// A job as it is now.
    Job(String, Vec<u8>),
    /// A job gives way.
    Gone(String),
    /// What a job was before it moved or went.
    Past(Vec<u8>),
    /// All calibrations: the first one is in force.
    Calibrations(Vec<String>),
    /// A text by its name.
    Mark(String, String),
}

/// What was kept before.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) jobs: Vec<(String, Vec<u8>)>,
    pub(crate) past: Vec<Vec<u8>>,
    pub(crate) calibrations: Vec<String>,
    pub(crate) marks: HashMap<String, String>,
}

type Answer = oneshot::Sender<Result<(), String>>;

/// The way to the thread that writes.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    changes: mpsc::Sender<(Vec<Change>, Option<Answer>)>,
}

impl Store {
    /// Opens what is kept in a folder, or keeps it in memory only.
    pub(crate) fn open(folder: Option<&Path>, bytes: Gauge) -> Result<(Self, Kept), String> {
        let database = match folder {
            Some(folder) => open_file(folder)?,
            None => Database::builder()
                .create_with_backend(InMemoryBackend::new())
                .map_err(|e| e.to_string())?,
        };
        let kept = read(&database).map_err(|e| e.to_string())?;
        let past = kept.past.iter().map(Vec::len).collect();
        let file = folder.map(|folder| folder.join(FILE));
        let (changes, waiting) = mpsc::channel();
        std::thread::Builder::new()
            .name("store".into())
            .spawn(move || {
                let writer = Writer {
                    database,
                    past,
                    file,
                    bytes,
                };
                writer.run(&waiting);
            })
            .map_err(|e| e.to_string())?;
        Ok((Self { changes }, kept))
    }

    /// Keeps changes; whoever waits for the answer knows that they are on the
    /// disk. They are written in the order of these calls.
    pub(crate) fn keep(&self, changes: Vec<Change>) -> oneshot::Receiver<Result<(), String>> {
        let (answer, kept) = oneshot::channel();
        // Without a thread the receiver hears that nobody will answer.
        let _ = self.changes.send((changes, Some(answer)));
        kept
    }
}

/// Opens the file. One that cannot be read is set aside, not deleted; one
/// that another process holds is left alone.
fn open_file(folder: &Path) -> Result<Database, String> {
    std::fs::create_dir_all(folder).map_err(|e| format!("--data-dir {}: {e}", folder.display()))?;
    let path = folder.join(FILE);
    let failed = |e: &dyn std::fmt::Display| format!("--data-dir {}: {e}", folder.display());
    match Database::create(&path) {
        Ok(database) => Ok(database),
        Err(redb::DatabaseError::DatabaseAlreadyOpen) => {
            Err(failed(&"another stepcast keeps its observations there"))
        }
        Err(redb::DatabaseError::Storage(redb::StorageError::Io(error)))
            if error.kind() != std::io::ErrorKind::InvalidData =>
        {
            Err(failed(&error))
        }
        Err(error) => {
            let aside = folder.join(format!("{FILE}.unreadable"));
            tracing::error!(%error, aside = %aside.display(), "what was kept cannot be read; it is set aside");
            std::fs::rename(&path, &aside).map_err(|e| failed(&e))?;
            Database::create(&path).map_err(|e| failed(&e))
        }
    }
}

fn read(database: &Database) -> Result<Kept, redb::Error> {
    // A table exists once it was written to.
    let writing = database.begin_write()?;
    writing.open_table(JOBS)?;
    writing.open_table(PAST)?;
    writing.open_table(CALIBRATIONS)?;
    writing.open_table(MARKS)?;
    writing.commit()?;
    let reading = database.begin_read()?;
    let mut kept = Kept::default();
    for entry in reading.open_table(JOBS)?.iter()? {
        let (id, bytes) = entry?;
        kept.jobs
            .push((id.value().to_owned(), bytes.value().to_vec()));
    }
    for entry in reading.open_table(PAST)?.iter()? {
        kept.past.push(entry?.1.value().to_vec());
    }
    for entry in reading.open_table(CALIBRATIONS)?.iter()? {
        kept.calibrations.push(entry?.1.value().to_owned());
    }
    for entry in reading.open_table(MARKS)?.iter()? {
        let (name, mark) = entry?;
        let (name, mark) = (name.value().to_owned(), mark.value().to_owned());
        kept.marks.insert(name, mark);
    }
    Ok(kept)
}

struct Writer {
    database: Database,
    /// Bytes of each placement of the past, the oldest first.
    past: std::collections::VecDeque<usize>,
    file: Option<PathBuf>,
    /// The file's size, for the metrics.
    bytes: Gauge,
}

impl Writer {
    fn run(mut self, waiting: &mpsc::Receiver<(Vec<Change>, Option<Answer>)>) {
        self.measure();
        while let Ok(first) = waiting.recv() {
            let mut batch = vec![first];
            while batch.len() < TOGETHER
                && let Ok(next) = waiting.try_recv()
            {
                batch.push(next);
            }
            let changes: Vec<&Change> = batch.iter().flat_map(|(c, _)| c).collect();
            let written = self.write(&changes).map_err(|e| e.to_string());
            if let Err(error) = &written {
                tracing::error!(%error, "observations cannot be kept");
            }
            self.measure();
            for (_, answer) in batch {
                if let Some(answer) = answer {
                    let _ = answer.send(written.clone());
                }
            }
        }
    }

    fn measure(&self) {
        let facts = self.file.as_ref().and_then(|f| std::fs::metadata(f).ok());
        self.bytes.set(facts.map_or(0.0, |f| f.len() as f64));
    }

    fn write(&mut self, changes: &[&Change]) -> Result<(), redb::Error> {
        let writing = self.database.begin_write()?;
        let mut past = self.past.clone();
        {
            let mut jobs = writing.open_table(JOBS)?;
            let mut gone = writing.open_table(PAST)?;
            let mut calibrations = writing.open_table(CALIBRATIONS)?;
            let mut marks = writing.open_table(MARKS)?;
            for change in changes {
                match change {
                    Change::Job(id, bytes) => {
                        jobs.insert(id.as_str(), bytes.as_slice())?;
                    }
                    Change::Gone(id) => {
                        jobs.remove(id.as_str())?;
                    }
                    Change::Past(bytes) => {
                        let next = gone.last()?.map_or(0, |(key, _)| key.value() + 1);
                        gone.insert(next, bytes.as_slice())?;
                        past.push_back(bytes.len());
                        while past.len() > MOST_PAST || past.iter().sum::<usize>() > MOST_PAST_BYTES
                        {
                            gone.pop_first()?;
                            past.pop_front();
                        }
                    }
                    Change::Mark(name, mark) => {
                        marks.insert(name.as_str(), mark.as_str())?;
                    }
                    Change::Calibrations(all) => {
                        while calibrations.pop_first()?.is_some() {}
                        for (place, text) in (0..).zip(all) {
                            calibrations.insert(place, text.as_str())?;
                        }
                    }
                }
            }
        }
        writing.commit()?;
        self.past = past;
        Ok(())
    }
}
