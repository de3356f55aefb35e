//! The sidecar's own numbers, under the names that dashboards know.

use crate::calibration::Calibration;
use crate::cluster::{Cluster, Source};
use prometheus::{
    Gauge, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry,
};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

/// Numbers for Prometheus.
pub(crate) struct Metrics {
    /// Where they are gathered from.
    pub(crate) registry: Registry,
    nodes: IntGaugeVec,
    defaulted: IntGaugeVec,
    synced: Gauge,
    last_contact: Gauge,
    calibration: IntGaugeVec,
    calibrated_at: Gauge,
    refused: IntCounterVec,
    predicted: GaugeVec,
    observed: GaugeVec,
    error: GaugeVec,
    job: IntGaugeVec,
    steps: IntCounterVec,
    calibration_error: GaugeVec,
    recalibrations: IntCounterVec,
    extender: IntCounterVec,
    extender_seconds: HistogramVec,
    /// Bytes of what is kept on disk.
    pub(crate) store_bytes: Gauge,
    /// Labels in use, to take back those that are gone.
    shown: Mutex<Shown>,
}

#[derive(Default)]
struct Shown {
    version: Option<String>,
    accelerators: Vec<String>,
    facts: Vec<String>,
    groups: Vec<String>,
}

/// A job's numbers.
pub(crate) struct JobNumbers<'a> {
    pub(crate) id: &'a str,
    pub(crate) workload: &'a str,
    pub(crate) accelerator: &'a str,
    pub(crate) model: &'a str,
    /// Where nothing can be predicted, or no step was seen yet: none.
    pub(crate) predicted: Option<f64>,
    pub(crate) observed: Option<f64>,
}

impl Metrics {
    pub(crate) fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let gauge = |name: &str, help: &str| -> prometheus::Result<Gauge> {
            let gauge = Gauge::with_opts(Opts::new(name, help))?;
            registry.register(Box::new(gauge.clone()))?;
            Ok(gauge)
        };
        let counts = |name: &str, help: &str, labels: &[&str]| -> prometheus::Result<IntGaugeVec> {
            let gauges = IntGaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(gauges.clone()))?;
            Ok(gauges)
        };
        let gauges = |name: &str, help: &str, labels: &[&str]| -> prometheus::Result<GaugeVec> {
            let gauges = GaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(gauges.clone()))?;
            Ok(gauges)
        };
        let counters =
            |name: &str, help: &str, labels: &[&str]| -> prometheus::Result<IntCounterVec> {
                let counters = IntCounterVec::new(Opts::new(name, help), labels)?;
                registry.register(Box::new(counters.clone()))?;
                Ok(counters)
            };
        let recalibrations = counters(
            "stepcast_recalibrations_total",
            "Fits on observations, by what came of them: taken, kept (the one in force was no worse), failed.",
            &["outcome"],
        )?;
        for outcome in ["taken", "kept", "failed"] {
            recalibrations.with_label_values(&[outcome]);
        }
        let extender = counters(
            "stepcast_extender_requests_total",
            "Requests of the scheduler, by what came of them: scored, passed (no pod of ours), failed (passed on).",
            &["verb", "outcome"],
        )?;
        for verb in ["filter", "prioritize"] {
            for outcome in ["scored", "passed", "failed"] {
                extender.with_label_values(&[verb, outcome]);
            }
        }
        let seconds = HistogramOpts::new(
            "stepcast_extender_duration_seconds",
            "How long the scheduler waited, by verb.",
        );
        let buckets = vec![
            0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
        ];
        let extender_seconds = HistogramVec::new(seconds.buckets(buckets), &["verb"])?;
        registry.register(Box::new(extender_seconds.clone()))?;
        let build = counts("stepcast_build_info", "The program.", &["version"])?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        Ok(Self {
            nodes: counts(
                "stepcast_inventory_nodes",
                "Nodes, by accelerator; `none` for those without.",
                &["accelerator"],
            )?,
            defaulted: counts(
                "stepcast_inventory_defaulted_facts",
                "Facts that are the configured default, by what they are about.",
                &["fact"],
            )?,
            synced: gauge(
                "stepcast_inventory_synced",
                "1 when the inventory is in touch with its source.",
            )?,
            last_contact: gauge(
                "stepcast_inventory_last_contact_timestamp_seconds",
                "When the source was last heard, bookmarks included.",
            )?,
            calibration: counts(
                "stepcast_calibration_info",
                "1 for the calibration in force.",
                &["version"],
            )?,
            calibrated_at: gauge(
                "stepcast_calibration_last_success_timestamp_seconds",
                "When a calibration was last put in force.",
            )?,
            refused: counters(
                "stepcast_refused_calls_total",
                "Calls that the caller may not make, by method.",
                &["method"],
            )?,
            predicted: gauges(
                "stepcast_predicted_step_seconds",
                "The step that is predicted, by job.",
                &["job", "model"],
            )?,
            observed: gauges(
                "stepcast_observed_step_seconds",
                "The step that is seen, by job: the median of the last reports.",
                &["job"],
            )?,
            error: gauges(
                "stepcast_prediction_error_ratio",
                "Predicted over observed, minus 1, by job.",
                &["job"],
            )?,
            job: counts(
                "stepcast_job_info",
                "1 for every job that reports, to join on.",
                &["job", "workload", "accelerator", "model"],
            )?,
            steps: counters(
                "stepcast_observed_steps_total",
                "Steps that jobs reported.",
                &["job"],
            )?,
            calibration_error: gauges(
                "stepcast_calibration_error_ratio",
                "Mean size of predicted over observed, minus 1, by type of device, and over all jobs.",
                &["group"],
            )?,
            recalibrations,
            extender,
            extender_seconds,
            store_bytes: gauge(
                "stepcast_observation_store_bytes",
                "Bytes of observations and calibrations on disk.",
            )?,
            shown: Mutex::default(),
            registry,
        })
    }

    /// The inventory is in touch, or not.
    pub(crate) fn synced(&self, synced: bool) {
        self.synced.set(f64::from(u8::from(synced)));
        if synced {
            self.contact();
        }
    }

    /// The source was heard.
    pub(crate) fn contact(&self) {
        self.last_contact.set(now());
    }

    /// Counts nodes and what was assumed of them.
    pub(crate) fn inventory(&self, cluster: &Cluster) {
        let mut nodes: BTreeMap<&str, i64> = BTreeMap::new();
        let mut defaulted: BTreeMap<String, i64> = BTreeMap::new();
        for node in &cluster.nodes {
            let accelerator = node
                .accelerators
                .as_ref()
                .map_or("none", |a| &a.device.name);
            *nodes.entry(accelerator).or_default() += 1;
            for fact in node.facts.iter().filter(|f| f.source == Source::Default) {
                *defaulted.entry(fact.name.to_string()).or_default() += 1;
            }
        }
        let Ok(mut shown) = self.shown.lock() else {
            return;
        };
        for gone in &shown.accelerators {
            if !nodes.contains_key(gone.as_str()) {
                let _ = self.nodes.remove_label_values(&[gone]);
            }
        }
        for gone in &shown.facts {
            if !defaulted.contains_key(gone) {
                let _ = self.defaulted.remove_label_values(&[gone]);
            }
        }
        shown.accelerators = nodes.keys().map(|&a| a.to_owned()).collect();
        shown.facts = defaulted.keys().cloned().collect();
        for (accelerator, count) in nodes {
            self.nodes.with_label_values(&[accelerator]).set(count);
        }
        for (fact, count) in defaulted {
            self.defaulted.with_label_values(&[&fact]).set(count);
        }
    }

    /// A calibration is in force.
    pub(crate) fn calibration(&self, calibration: &Calibration) {
        let version = calibration
            .version
            .as_deref()
            .unwrap_or("shipped")
            .to_owned();
        let Ok(mut shown) = self.shown.lock() else {
            return;
        };
        if let Some(before) = shown.version.take() {
            let _ = self.calibration.remove_label_values(&[&before]);
        }
        self.calibration.with_label_values(&[&version]).set(1);
        self.calibrated_at.set(now());
        shown.version = Some(version);
    }

    /// A call was refused.
    pub(crate) fn refused(&self, method: &str) {
        self.refused.with_label_values(&[method]).inc();
    }

    /// A job reported steps.
    pub(crate) fn observed(&self, job: &JobNumbers<'_>, steps: u64) {
        self.counted(job.id, steps);
        if let Some(predicted) = job.predicted {
            self.predicted
                .with_label_values(&[job.id, job.model])
                .set(predicted);
        }
        if let Some(observed) = job.observed {
            self.observed.with_label_values(&[job.id]).set(observed);
        }
        if let (Some(predicted), Some(observed)) = (job.predicted, job.observed) {
            self.error
                .with_label_values(&[job.id])
                .set(predicted / observed - 1.0);
        }
        self.job
            .with_label_values(&[job.id, job.workload, job.accelerator, job.model])
            .set(1);
    }

    /// Steps of a job were counted.
    pub(crate) fn counted(&self, id: &str, steps: u64) {
        self.steps.with_label_values(&[id]).inc_by(steps);
    }

    /// Mean error of predictions against observations, by group.
    pub(crate) fn errors(&self, errors: &BTreeMap<String, f64>) {
        let Ok(mut shown) = self.shown.lock() else {
            return;
        };
        for gone in &shown.groups {
            if !errors.contains_key(gone) {
                let _ = self.calibration_error.remove_label_values(&[gone]);
            }
        }
        shown.groups = errors.keys().cloned().collect();
        for (group, error) in errors {
            self.calibration_error
                .with_label_values(&[group])
                .set(*error);
        }
    }

    /// The scheduler asked.
    pub(crate) fn extended(&self, verb: &str, outcome: &str, seconds: f64) {
        self.extender.with_label_values(&[verb, outcome]).inc();
        self.extender_seconds
            .with_label_values(&[verb])
            .observe(seconds);
    }

    /// A fit on observations came to an end.
    pub(crate) fn recalibrated(&self, outcome: &str) {
        self.recalibrations.with_label_values(&[outcome]).inc();
    }

    /// A job gives way to others.
    pub(crate) fn forget(&self, job: &JobNumbers<'_>) {
        let _ = self.steps.remove_label_values(&[job.id]);
        let _ = self.predicted.remove_label_values(&[job.id, job.model]);
        let _ = self.observed.remove_label_values(&[job.id]);
        let _ = self.error.remove_label_values(&[job.id]);
        let labels = [job.id, job.workload, job.accelerator, job.model];
        let _ = self.job.remove_label_values(&labels);
    }
}

fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |d| d.as_secs_f64())
}
