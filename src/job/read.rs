//! Reads a job file.

use super::strategy::{
    Algorithm, AllReduce, AsyncAllReduce, Fusion, ParameterServer, Strategy, Sync,
};
use super::{Batch, Job, Precision};
use crate::input::{Field, Object, Problems, Reader, Tree, near, parse};
use crate::measured::{elements, gemm};
use crate::units::{Bytes, Seconds, Unit};
use std::sync::Arc;

/// A job file over this is refused unread.
pub const MAX_JOB_BYTES: u64 = 16 << 20;

/// Parameter servers that a job may ask for.
const MAX_SERVERS: u64 = 10_000;

/// Fetches what a job refers to by path, relative to the job: the text, or
/// why it cannot be had. The core reads no files itself.
pub type Resolve<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// A job's text and where it came from.
#[derive(Clone, Copy)]
pub struct JobFile<'a> {
    /// The name in error messages.
    pub name: &'a str,
    /// The text.
    pub text: &'a str,
    /// Fetches files that it refers to.
    pub resolve: Resolve<'a>,
}

const KEYS: &[&str] = &[
    "name",
    "workload",
    "batch_size",
    "global_batch_size",
    "precision",
    "steps",
    "strategy",
];

/// Ways to train that are not data parallelism, by the names people use.
const REFUSED: &[(&str, &str)] = &[
    ("pipeline", "pipeline parallelism"),
    ("pipeline_parallel", "pipeline parallelism"),
    ("pipeline_parallelism", "pipeline parallelism"),
    ("gpipe", "pipeline parallelism"),
    ("tensor_parallel", "tensor parallelism"),
    ("tensor_parallelism", "tensor parallelism"),
    ("model_parallel", "model parallelism"),
    ("megatron", "tensor parallelism"),
    ("sequence_parallel", "sequence parallelism"),
    ("context_parallel", "context parallelism"),
    ("expert_parallel", "expert parallelism"),
    ("sharded", "sharded data parallelism"),
    ("fsdp", "sharded data parallelism"),
    ("fully_sharded", "sharded data parallelism"),
    ("zero", "sharded data parallelism"),
    ("zero1", "sharded data parallelism"),
    ("zero2", "sharded data parallelism"),
    ("zero3", "sharded data parallelism"),
    ("deepspeed", "sharded data parallelism"),
];

impl JobFile<'_> {
    /// The job, or everything that is wrong with the file.
    pub fn read(&self) -> Result<Job, Problems> {
        let whole = |found: String, hint: Option<String>| {
            Problems::whole_file(self.name, found, "a job".into(), hint)
        };
        if self.text.len() as u64 > MAX_JOB_BYTES {
            let found = format!("{} bytes", self.text.len());
            return Err(whole(
                found,
                Some(format!("a job file has at most {MAX_JOB_BYTES} bytes")),
            ));
        }
        if self.text.trim().is_empty() {
            let hint = "a job needs at least `workload` and `batch_size`";
            return Err(whole("an empty file".into(), Some(hint.into())));
        }
        let tree: Tree = parse(self.text).map_err(|error| whole(error, None))?;
        self.read_tree(&tree)
    }

    /// The same from a document that is parsed already; `text` is not used.
    pub fn read_tree(&self, tree: &Tree) -> Result<Job, Problems> {
        let reader = Reader::new(self.name);
        let root = reader.root(tree);
        let job = root
            .object("a job", KEYS)
            .and_then(|object| self.job(&object));
        reader.finish(job)
    }

    fn job(&self, object: &Object<'_>) -> Option<Job> {
        let name = object.get("name").map(|f| f.text("a name"));
        let workload = object
            .require("workload", "a network's name, or a map that describes one")
            .and_then(|f| crate::workload::read(&f, self.resolve));
        let batch = batch(object);
        let precision = object.get("precision").map(|f| {
            f.choice(&[
                ("fp32", Precision::Fp32),
                ("tf32", Precision::Tf32),
                ("fp16", Precision::Fp16),
                ("bf16", Precision::Bf16),
                ("amp", Precision::Amp),
            ])
        });
        let steps = object.get("steps").map(|f| f.count(1, "steps"));
        let strategy = object.get("strategy").map(|f| strategy(&f, self.resolve));
        Some(Job {
            name: name.flatten().map(str::to_owned),
            workload: Arc::new(workload?),
            batch: batch?,
            precision: precision.unwrap_or_default_some()?,
            steps: steps.flatten(),
            strategy: strategy.unwrap_or_default_some()?,
        })
    }
}

/// Absent is the default; present must have been read.
trait OrDefault<T> {
    fn unwrap_or_default_some(self) -> Option<T>;
}

impl<T: Default> OrDefault<T> for Option<Option<T>> {
    fn unwrap_or_default_some(self) -> Option<T> {
        self.unwrap_or_else(|| Some(T::default()))
    }
}

fn batch(object: &Object<'_>) -> Option<Batch> {
    match (object.get("batch_size"), object.get("global_batch_size")) {
        (Some(_), Some(global)) => {
            global.problem(
                "either `batch_size` or `global_batch_size`",
                Some("`batch_size` is what one worker takes a step; remove one of the two".into()),
            );
            None
        }
        (None, Some(global)) => global.count(1, "samples a step").map(Batch::Global),
        (Some(each), None) if matches!(each.tree(), Tree::List(_)) => {
            let items = each.items("a list of sizes");
            if items.is_empty() {
                each.problem("a size for each worker", None);
            }
            let sizes: Vec<Option<u32>> = items
                .iter()
                .map(|f| f.small_count(1, "samples of this worker"))
                .collect();
            sizes
                .into_iter()
                .collect::<Option<Vec<u32>>>()
                .map(Batch::Each)
        }
        (each, None) => {
            let each = match each {
                Some(each) => each,
                None => object.require("batch_size", "samples a worker a step")?,
            };
            each.small_count(1, "samples a worker a step")
                .map(Batch::PerWorker)
        }
    }
}

fn strategy(field: &Field<'_>, resolve: Resolve<'_>) -> Option<Strategy> {
    const NAMES: &[&str] = &[
        "single",
        "parameter_server",
        "all_reduce",
        "async_all_reduce",
    ];
    let (name, body) = match field.tree() {
        Tree::Text(name) => (name.as_str(), None),
        Tree::Map(entries) if entries.len() == 1 => (entries[0].0.as_str(), Some(())),
        Tree::Map(_) => {
            field.problem(
                "exactly one strategy",
                Some(format!("one of {}", NAMES.join(", "))),
            );
            return None;
        }
        _ => {
            field.problem(format!("one of {}", NAMES.join(", ")), None);
            return None;
        }
    };
    let folded = name.to_lowercase().replace('-', "_");
    if let Some((_, what)) = REFUSED.iter().find(|(refused, _)| *refused == folded) {
        field.refuse(
            format!("`{name}`"),
            "a data-parallel strategy",
            Some(format!(
                "stepcast does not answer for {what}; it models {}",
                NAMES.join(", ")
            )),
        );
        return None;
    }
    if !NAMES.contains(&name) {
        let hint = near(name, NAMES.iter().copied())
            .first()
            .map(|n| format!("did you mean `{n}`?"));
        field.refuse(
            format!("`{name}`"),
            format!("one of {}", NAMES.join(", ")),
            hint,
        );
        return None;
    }
    let keys = [name];
    let object = body.and_then(|()| field.object("a strategy", &keys));
    let inner = object.as_ref().and_then(|o| o.get(name));
    match (name, inner) {
        ("parameter_server", Some(f)) => parameter_server(&f).map(Strategy::ParameterServer),
        ("parameter_server", None) => Some(Strategy::ParameterServer(ParameterServer::default())),
        ("all_reduce", Some(f)) => all_reduce(&f).map(Strategy::AllReduce),
        ("all_reduce", None) => Some(Strategy::AllReduce(AllReduce::default())),
        ("single", Some(f)) => {
            f.object("single", &[])?;
            Some(Strategy::Single)
        }
        ("async_all_reduce", Some(f)) => {
            async_all_reduce(&f, resolve).map(Strategy::AsyncAllReduce)
        }
        ("async_all_reduce", None) => Some(Strategy::AsyncAllReduce(AsyncAllReduce::default())),
        _ => Some(Strategy::Single),
    }
}

/// The largest sample, in KiB.
const MAX_SAMPLE_KIB: u64 = 1 << 30;

fn async_all_reduce(field: &Field<'_>, resolve: Resolve<'_>) -> Option<AsyncAllReduce> {
    let keys = ["samples", "sample_kib", "gemm_times", "element_times"];
    let object = field.object("async_all_reduce", &keys)?;
    let default = AsyncAllReduce::default();
    let samples = object
        .get("samples")
        .map(|f| f.count(1, "samples of the data set"));
    let kib = object
        .get("sample_kib")
        .map(|f| f.count_within(1, MAX_SAMPLE_KIB, "KiB of one sample"));
    let gemm = object.get("gemm_times").map(|f| {
        table(&f, resolve, "a table of products: m,n,k,seconds", |text| {
            gemm::read(text).map(Arc::new)
        })
    });
    let coefficients = object.get("element_times").map(|f| {
        let what = "a table of element times: element,nodes,sub_batch,parameters,seconds";
        table(&f, resolve, what, |text| {
            let times = elements::read(text)?;
            let fitted = elements::fit(&times).map_err(|error| error.to_string())?;
            Ok(Arc::new(fitted))
        })
    });
    Some(AsyncAllReduce {
        samples: samples.flatten(),
        sample_bytes: kib
            .flatten()
            .map_or(default.sample_bytes, |k| k as f64 * 1024.0),
        gemm: gemm.map_or(Some(None), |g| g.map(Some))?,
        coefficients: coefficients.map_or(Some(None), |c| c.map(Some))?,
    })
}

/// A table that the job refers to by path.
fn table<T>(
    field: &Field<'_>,
    resolve: Resolve<'_>,
    what: &str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Option<T> {
    let path = field.text("a path")?;
    resolve(path)
        .and_then(|text| read(&text))
        .inspect_err(|why| field.problem(what, Some(why.clone())))
        .ok()
}

fn parameter_server(field: &Field<'_>) -> Option<ParameterServer> {
    let keys = [
        "sync",
        "staleness",
        "servers",
        "overlap",
        "local_aggregation",
        "fusion",
    ];
    let object = field.object("parameter_server", &keys)?;
    let default = ParameterServer::default();
    let staleness = object.get("staleness");
    let sync = match object.get("sync") {
        None => Some(default.sync),
        Some(f) => f.choice(&[
            ("bsp", Sync::Bsp),
            ("asp", Sync::Asp),
            ("ssp", Sync::Ssp(0)),
        ]),
    };
    let sync = match (sync, staleness) {
        (Some(Sync::Ssp(_)), Some(f)) => f.small_count(0, "steps").map(Sync::Ssp),
        (Some(Sync::Ssp(_)), None) => {
            object.require("staleness", "how many steps a worker may be ahead");
            None
        }
        (sync, Some(f)) => {
            f.problem("`staleness` only with `sync: ssp`", None);
            sync
        }
        (sync, None) => sync,
    };
    let servers = object.get("servers").map_or(Some(default.servers), |f| {
        f.count_within(1, MAX_SERVERS, "servers").map(|n| n as u32)
    });
    let overlap = object
        .get("overlap")
        .map_or(Some(default.overlap), |f| f.flag());
    let local = object
        .get("local_aggregation")
        .map_or(Some(default.local_aggregation), |f| f.flag());
    let fusion = object.get("fusion").map_or(Some(default.fusion), |f| {
        let read = fusion(&f)?;
        if matches!(read, Fusion::Adaptive | Fusion::MgWfbp) {
            let hint = "adaptive and mg_wfbp are plans of all-reduce";
            f.problem(
                "none, {buffer_mib} or {partition_mib} with a parameter server",
                Some(hint.into()),
            );
            return None;
        }
        Some(read)
    });
    Some(ParameterServer {
        sync: sync?,
        servers: servers?,
        overlap: overlap?,
        local_aggregation: local?,
        fusion: fusion?,
    })
}

fn all_reduce(field: &Field<'_>) -> Option<AllReduce> {
    let keys = [
        "algorithm",
        "overlap",
        "fusion",
        "compression",
        "accumulation",
    ];
    let object = field.object("all_reduce", &keys)?;
    let default = AllReduce::default();
    let algorithm = object
        .get("algorithm")
        .map_or(Some(default.algorithm), |f| {
            f.choice(&[
                ("ring", Algorithm::Ring),
                ("tree", Algorithm::Tree),
                ("hierarchical", Algorithm::Hierarchical),
                ("auto", Algorithm::Auto),
            ])
        });
    let overlap = object
        .get("overlap")
        .map_or(Some(default.overlap), |f| f.flag());
    let fusion = object
        .get("fusion")
        .map_or(Some(default.fusion), |f| fusion(&f));
    let compression = object
        .get("compression")
        .map_or(Some(default.compression), |f| {
            let ratio = f.positive(Unit::None)?;
            if ratio > 1.0 {
                f.problem(
                    "bytes sent for a byte of gradients: above 0, at most 1",
                    None,
                );
                return None;
            }
            Some(ratio)
        });
    let accumulation = object
        .get("accumulation")
        .map_or(Some(default.accumulation), |f| {
            f.small_count(1, "backward passes")
        });
    Some(AllReduce {
        algorithm: algorithm?,
        overlap: overlap?,
        fusion: fusion?,
        compression: compression?,
        accumulation: accumulation?,
    })
}

fn fusion(field: &Field<'_>) -> Option<Fusion> {
    if let Tree::Text(_) = field.tree() {
        return field.choice(&[
            ("none", Fusion::None),
            ("adaptive", Fusion::Adaptive),
            ("mg_wfbp", Fusion::MgWfbp),
        ]);
    }
    let keys = ["buffer_mib", "timeout_ms", "partition_mib", "priority"];
    let object = field.object("fusion", &keys)?;
    let buffer = object.get("buffer_mib");
    let part = object.get("partition_mib");
    match (buffer, part) {
        (Some(buffer), None) => {
            if let Some(priority) = object.get("priority") {
                priority.problem("`priority` only with `partition_mib`", None);
            }
            let timeout = object
                .get("timeout_ms")
                .map(|f| f.non_negative(Unit::Milliseconds));
            Some(Fusion::Buffer {
                buffer: Bytes::from_mib(buffer.positive(Unit::Mebibytes)?),
                timeout: timeout.flatten().map(Seconds::from_millis),
            })
        }
        (None, Some(part)) => {
            if let Some(timeout) = object.get("timeout_ms") {
                timeout.problem("`timeout_ms` only with `buffer_mib`", None);
            }
            Some(Fusion::Partition {
                part: Bytes::from_mib(part.positive(Unit::Mebibytes)?),
                priority: object.get("priority").map_or(Some(false), |f| f.flag())?,
            })
        }
        _ => {
            field.problem(
                "either `buffer_mib` or `partition_mib`, or none | adaptive | mg_wfbp",
                None,
            );
            None
        }
    }
}
