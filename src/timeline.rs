//! A predicted step as a trace that Chrome and Perfetto open.

use crate::model::{Case, Span, Track};
use crate::sim::{Resource, Spec, Traced};
use crate::units::Seconds;
use serde_json::{Value, json};

/// The step of one worker alone, layer by layer.
pub fn alone(case: &Case<'_>) -> Vec<Span> {
    let timing = &case.classes[case.slowest()].timing;
    let layers = &case.job.workload.layers;
    let mut clock = Seconds::ZERO;
    let mut spans = Vec::new();
    let mut add = |name: String, length: Seconds| {
        spans.push(Span {
            track: Track::Compute(0),
            name,
            start: clock,
            length,
        });
        clock += length;
    };
    for (layer, time) in layers.iter().zip(&timing.forward) {
        add(layer.name.clone(), *time);
    }
    for (layer, time) in layers.iter().zip(&timing.backward).rev() {
        add(format!("{} (backward)", layer.name), *time);
    }
    add("optimizer".into(), timing.optimizer);
    spans
}

/// The trace as JSON: one process a class of workers, one thread a resource.
pub fn chrome_trace(case: &Case<'_>, spans: &[Span]) -> String {
    let servers = case.classes.len();
    let mut events: Vec<Value> = Vec::new();
    let name = |kind: &str, process: usize, thread: Option<usize>, name: String| json!({"ph": "M", "name": kind, "pid": process, "tid": thread.unwrap_or(0), "args": {"name": name}});
    for (k, class) in case.classes.iter().enumerate() {
        let node = &case.cluster.nodes[class.node].name;
        let title = format!("{node} ({}), one of {}", class.device.name, class.count);
        events.push(name("process_name", k, None, title));
        for (thread, title) in ["pull", "compute", "push"].into_iter().enumerate() {
            events.push(name("thread_name", k, Some(thread), title.into()));
        }
    }
    if !case.servers.is_empty() {
        events.push(name(
            "process_name",
            servers,
            None,
            "parameter servers".into(),
        ));
        events.push(name("thread_name", servers, Some(0), "update".into()));
    }
    if spans.iter().any(|s| s.track == Track::Collective) {
        events.push(name("process_name", servers, None, "all workers".into()));
        events.push(name("thread_name", servers, Some(1), "all-reduce".into()));
    }
    for span in spans {
        let (process, thread, category) = match span.track {
            Track::Pull(k) => (k, 0, "pull"),
            Track::Compute(k) => (k, 1, "compute"),
            Track::Push(k) => (k, 2, "push"),
            Track::Server => (servers, 0, "update"),
            Track::Collective => (servers, 1, "all-reduce"),
        };
        events.push(json!({
            "ph": "X",
            "name": span.name,
            "cat": category,
            "pid": process,
            "tid": thread,
            "ts": span.start.get() * 1e6,
            "dur": span.length.get() * 1e6,
        }));
    }
    json!({"displayTimeUnit": "ms", "traceEvents": events}).to_string()
}

/// A simulated trace as JSON: one process a worker, one thread a resource.
pub fn simulated(spec: &Spec, spans: &[Traced]) -> String {
    let mut events: Vec<Value> = Vec::new();
    let threads = ["pull", "compute", "push", "server", "round trips"];
    for worker in 0..spec.workers.len() {
        events.push(json!({"ph": "M", "name": "process_name", "pid": worker, "args": {"name": format!("worker {worker}")}}));
        for (thread, name) in threads.iter().enumerate() {
            events.push(json!({"ph": "M", "name": "thread_name", "pid": worker, "tid": thread, "args": {"name": name}}));
        }
    }
    for span in spans {
        let operation = &spec.graph.operations[span.op as usize];
        let thread = match operation.resource {
            Resource::Down(_) => 0,
            Resource::Compute => 1,
            Resource::Up(_) => 2,
            Resource::Server(_) => 3,
            Resource::Wait => 4,
        };
        events.push(json!({
            "ph": "X",
            "name": operation.name,
            "cat": threads[thread],
            "pid": span.worker,
            "tid": thread,
            "ts": span.start * 1e6,
            "dur": (span.end - span.start) * 1e6,
        }));
    }
    json!({"displayTimeUnit": "ms", "traceEvents": events}).to_string()
}
