//! `stepcast serve`.

use super::args::{LogFormat, ServeArgs};
use super::example;
use super::files::{self, Failure};
use crate::calibration::Calibration;
use crate::cluster::Links;
use crate::serve::{Access, Config, Limits, Source, TlsFiles};
use crate::units::{BytesPerSecond, Unit, parse_quantity};
use std::time::Duration;

pub(super) fn run(args: ServeArgs) -> Result<(), Failure> {
    let defaults = files::defaults(&args.default_nic)?;
    let links = Links {
        between_zones: rate("--between-zones", args.between_zones.as_deref())?,
        between_racks: rate("--between-racks", args.between_racks.as_deref())?,
    };
    let example = args.cluster.is_none() && !args.kube;
    let source = if args.kube {
        Source::Kubernetes
    } else {
        let mut cluster = match &args.cluster {
            Some(path) => files::read_cluster(path, &defaults)?,
            None => example::cluster(&defaults)?,
        };
        if !links.is_empty() {
            cluster.links = links;
        }
        Source::Cluster(Box::new(cluster))
    };
    let calibration = match &args.calibration {
        Some(path) => files::read_calibration(path)?,
        None => Calibration::shipped().clone(),
    };
    let tls = match (args.tls_cert, args.tls_key) {
        (Some(cert), Some(key)) => Some(TlsFiles {
            cert,
            key,
            client_ca: args.tls_client_ca,
        }),
        _ => None,
    };
    let config = Config {
        listen: args.listen,
        access: Access {
            names: args.allow_name,
            tokens: args.token_file,
            // The socket's owner is the user that this process runs as.
            uid: args.uds.is_some().then(own_uid).flatten(),
            reading: args.protect_reading,
        },
        uds: args.uds,
        metrics: args.metrics,
        extender: args.extender,
        tls,
        source,
        calibration,
        assumed: (defaults, links),
        limits: Limits {
            message_bytes: args.max_message_mib << 20,
            nodes: args.max_nodes,
            sets: args.max_sets,
            layers: args.max_layers,
            simulation_events: args.max_simulation_events,
            concurrent_calls: args.max_concurrent_calls,
            concurrent_plans: args.max_concurrent_plans,
            curve_workers: args.max_curve_workers,
            longest_call: Duration::from_secs(args.max_call_seconds),
        },
        data: args.data_dir,
        pull: match &args.observe {
            Some(path) => files::read_sources(path)?,
            None => Vec::new(),
        },
        jobs: args.max_jobs,
        recalibrate: !args.no_recalibrate,
        drain: Duration::from_secs(args.drain_seconds),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let served = runtime.block_on(crate::serve::run(config, |started| {
        let address = started.grpc;
        tracing::info!(
            grpc = %address,
            metrics = %format!("http://{}/metrics", started.metrics),
            uds = ?started.uds,
            "serving"
        );
        if args.log_format == LogFormat::Text {
            announce(
                &address.to_string(),
                &started.metrics.to_string(),
                started.tls,
                example,
            );
        }
    }));
    runtime.shutdown_timeout(Duration::from_secs(1));
    served.map_err(|error| error.to_string().into())
}

/// How to call it, for whoever started it by hand.
fn announce(address: &str, metrics: &str, tls: bool, example: bool) {
    let (plain, url) = if tls {
        ("", format!("https://{address}"))
    } else {
        ("--http2-prior-knowledge ", format!("http://{address}"))
    };
    let what = if example {
        "the built-in example"
    } else {
        "your cluster"
    };
    let request = r#"{"job":{"workload":{"catalogue_name":"resnet50"},"batch_size":32,"strategy":{"all_reduce":{}}}}"#;
    super::output::note(&format!(
        "serving {what} on {address}, metrics on http://{metrics}/metrics\n\nask it:\n  buf curl {plain}--protocol grpc \\\n    -d '{request}' \\\n    {url}/stepcast.v1.Predictor/Predict\n"
    ));
}

fn rate(flag: &str, text: Option<&str>) -> Result<Option<BytesPerSecond>, Failure> {
    let Some(text) = text else {
        return Ok(None);
    };
    let gbps = parse_quantity(text, Unit::Gbps).filter(|g| Unit::Gbps.plausible().contains(g));
    let gbps =
        gbps.ok_or_else(|| format!("{flag}: found `{text}`, expected {}", Unit::Gbps.expected()))?;
    Ok(Some(BytesPerSecond::from_gbit(gbps)))
}

/// The user that this process runs as.
fn own_uid() -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").ok().map(|m| m.uid())
}
