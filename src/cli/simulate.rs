//! `stepcast simulate`.

use super::args::{Format, OrderName, SimulateArgs};
use super::files::{Asked, Failure};
use super::output;
use super::predict::headline;
use crate::model::{Case, Timings, simulated};
use crate::placement::{Placement, Selection};
use crate::sim::{self, Failure as Outage, Limits, Order, Outcome, SimError, Spec, Tracer};
use crate::timeline;
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

#[derive(Serialize)]
struct SimulationView {
    iteration_time_s: f64,
    throughput_samples_per_s: f64,
    half_width_samples_per_s: Option<f64>,
    level: f64,
    workers: usize,
    steps: u64,
    events: u64,
    simulated_time_s: f64,
    stopped_early: bool,
    utilisation: UtilisationView,
    staleness: Vec<Vec<u64>>,
    series: Vec<(f64, f64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sweep: Option<SweepView>,
}

#[derive(Serialize)]
struct UtilisationView {
    compute: Vec<f64>,
    server_update: Vec<f64>,
    server_nic_in: Vec<f64>,
    server_nic_out: Vec<f64>,
    worker_nic_in: Vec<f64>,
    worker_nic_out: Vec<f64>,
}

#[derive(Serialize)]
struct SweepView {
    points: Vec<PointView>,
    saturation_workers: Option<u32>,
}

#[derive(Serialize)]
struct PointView {
    workers: u32,
    throughput_samples_per_s: f64,
    half_width_samples_per_s: f64,
}

/// Gain of one more worker below which a series is saturated.
const SATURATED: f64 = 0.05;
/// The largest coefficient of variation that makes sense.
const MOST_VARIATION: f64 = 10.0;
/// The largest factor of a straggler, and the longest outage.
const MOST: f64 = 1e6;
/// Slices of the time series.
const SLICES: usize = 40;
/// Spans that a trace keeps.
const TRACED: usize = 200_000;

pub(super) fn run(args: SimulateArgs) -> Result<(), Failure> {
    let settings = settings(&args)?;
    let limits = Limits {
        steps: args.steps.max(1),
        warm_up: args.warm_up,
        tolerance: args.tolerance,
        events: args.max_events,
    };
    let until = Duration::try_from_secs_f64(args.deadline)
        .ok()
        .and_then(|d| Instant::now().checked_add(d))
        .ok_or_else(|| format!("--deadline: found `{}`, expected seconds", args.deadline))?;
    if args.warm_up >= args.steps {
        return Err(format!(
            "--warm-up {} leaves none of {} steps",
            args.warm_up, args.steps
        )
        .into());
    }
    let expired = move || Instant::now() >= until;
    let SimulateArgs {
        question,
        seed,
        sweep,
        trace,
        output: format,
        ..
    } = args;
    let asked = question.read()?;
    let spec = spec_of(&asked, &settings, asked.selection.workers)?;
    check_workers(&settings, &spec)?;
    let outcome = match &trace {
        None => sim::simulate(&spec, &limits, seed, &expired)?,
        Some(path) => traced(&spec, &limits, seed, &expired, path)?,
    };
    let sweep = sweep
        .map(|most| swept(&asked, &settings, most, &limits, seed, &expired))
        .transpose()?;
    let view = view(&spec, &outcome, sweep);
    match format {
        Format::Table => output::print(&sheet(&asked, &spec, &outcome, &view)),
        Format::Csv => {
            let rows: Vec<Vec<String>> = view
                .series
                .iter()
                .map(|(t, rate)| vec![t.to_string(), rate.to_string()])
                .collect();
            output::print(&output::csv(&["time_s", "throughput_samples_per_s"], &rows))
        }
        Format::Json | Format::Yaml => output::print(&output::document(&view, format)?),
    }
}

fn settings(args: &SimulateArgs) -> Result<simulated::Settings, Failure> {
    let share = |flag: &str, value: f64| {
        if (0.0..=MOST_VARIATION).contains(&value) {
            Ok(value)
        } else {
            Err(format!(
                "{flag}: found `{value}`, expected a number from 0 to {MOST_VARIATION}"
            ))
        }
    };
    share("--tolerance", args.tolerance)?;
    Ok(simulated::Settings {
        order: match args.order {
            OrderName::Forward => Order::Forward,
            OrderName::Reverse => Order::Reverse,
            OrderName::Random => Order::Random,
        },
        window: match args.window_mib {
            None => f64::INFINITY,
            Some(mib) if mib.is_finite() && mib > 0.0 => mib * f64::from(1 << 20),
            Some(mib) => {
                return Err(format!("--window-mib: found `{mib}`, expected MiB above zero").into());
            }
        },
        jitter: share("--jitter", args.jitter)?,
        unfairness: share("--unfairness", args.unfairness)?,
        update: args.update_cores.map_or(simulated::Update::Whole, |c| {
            simulated::Update::EachTensor(c.max(1))
        }),
        message_s: share("--message-us", args.message_us / 1e6)?,
        stragglers: args
            .straggler
            .iter()
            .map(|text| straggler(text))
            .collect::<Result<_, _>>()?,
        failures: args
            .fail
            .iter()
            .map(|text| failure(text))
            .collect::<Result<_, _>>()?,
    })
}

fn straggler(text: &str) -> Result<(u32, f64), Failure> {
    text.split_once('=')
        .and_then(|(worker, factor)| Some((worker.parse().ok()?, factor.parse::<f64>().ok()?)))
        .filter(|(_, factor)| *factor > 0.0 && *factor <= MOST)
        .ok_or_else(|| {
            format!("--straggler: found `{text}`, expected WORKER=FACTOR such as 3=2.5").into()
        })
}

fn failure(text: &str) -> Result<Outage, Failure> {
    let parse = || {
        let (worker, times) = text.split_once('@')?;
        let (at, back) = match times.split_once('+') {
            Some((at, back)) => (at, Some(back.parse::<f64>().ok()?)),
            None => (times, None),
        };
        let at: f64 = at.parse().ok()?;
        let fine = |t: f64| (0.0..=MOST).contains(&t);
        (fine(at) && back.is_none_or(fine)).then_some(())?;
        Some(Outage {
            worker: worker.parse().ok()?,
            at,
            back: back.map(|b| at + b),
        })
    };
    parse().ok_or_else(|| {
        format!("--fail: found `{text}`, expected WORKER@SECONDS or WORKER@SECONDS+SECONDS").into()
    })
}

fn check_workers(settings: &simulated::Settings, spec: &Spec) -> Result<(), Failure> {
    let there = spec.workers.len() as u32;
    let named = settings.stragglers.iter().map(|s| s.0);
    let mut named = named.chain(settings.failures.iter().map(|f| f.worker));
    match named.find(|w| *w >= there) {
        Some(worker) => Err(format!(
            "worker {worker} is not there: the simulation has {there}, counted from 0"
        )
        .into()),
        None => Ok(()),
    }
}

fn spec_of(
    asked: &Asked,
    settings: &simulated::Settings,
    workers: Option<usize>,
) -> Result<Spec, Failure> {
    let selection = Selection {
        workers,
        ..asked.selection.clone()
    };
    let placement = Placement::select(&asked.job, &asked.cluster, &selection)?;
    let mut timings = Timings::default();
    let case = Case::new(
        &asked.job,
        &asked.cluster,
        &asked.calibration,
        &placement,
        &mut timings,
    )?;
    simulated::spec(&case, settings).ok_or_else(|| {
        format!(
            "there is no simulation of `{}`\n  hint: `parameter_server` has one, with `sync: asp`, `ssp` or `bsp`",
            asked.job.strategy
        )
        .into()
    })
}

fn swept(
    asked: &Asked,
    settings: &simulated::Settings,
    most: u32,
    limits: &Limits,
    seed: u64,
    expired: &(dyn Fn() -> bool + Sync),
) -> Result<SweepView, Failure> {
    // Who fails or straggles is a matter of the one run.
    let settings = simulated::Settings {
        stragglers: Vec::new(),
        failures: Vec::new(),
        ..settings.clone()
    };
    let specs: Vec<Spec> = (1..=most.max(1))
        .map(|n| spec_of(asked, &settings, Some(n as usize)))
        .collect::<Result<_, _>>()?;
    let outcomes: Vec<Outcome> = sim::sweep(&specs, limits, seed, expired)
        .into_iter()
        .collect::<Result<_, SimError>>()?;
    let points: Vec<PointView> = outcomes
        .iter()
        .zip(1..)
        .map(|(outcome, workers)| PointView {
            workers,
            throughput_samples_per_s: outcome.estimate.throughput,
            half_width_samples_per_s: outcome.estimate.half_width,
        })
        .collect();
    let series: Vec<(u32, f64)> = points
        .iter()
        .map(|p| (p.workers, p.throughput_samples_per_s))
        .collect();
    Ok(SweepView {
        saturation_workers: sim::saturation(&series, SATURATED),
        points,
    })
}

fn traced(
    spec: &Spec,
    limits: &Limits,
    seed: u64,
    expired: &dyn Fn() -> bool,
    path: &Path,
) -> Result<Outcome, Failure> {
    let mut tracer = Tracer {
        most: TRACED,
        ..Tracer::default()
    };
    let outcome = sim::simulate_watched(spec, limits, seed, expired, &mut tracer)?;
    std::fs::write(path, timeline::simulated(spec, &tracer.spans))
        .map_err(|error| format!("--trace {}: {error}", path.display()))?;
    Ok(outcome)
}

fn view(spec: &Spec, outcome: &Outcome, sweep: Option<SweepView>) -> SimulationView {
    let server = |way: usize| -> Vec<f64> {
        let hosts = spec.servers.iter().map(|s| s.host as usize);
        hosts.map(|h| outcome.links[h][way]).collect()
    };
    let worker = |way: usize| -> Vec<f64> {
        let hosts = spec.workers.iter().map(|w| w.host as usize);
        hosts.map(|h| outcome.links[h][way]).collect()
    };
    SimulationView {
        iteration_time_s: outcome.iteration_s(spec),
        throughput_samples_per_s: outcome.estimate.throughput,
        half_width_samples_per_s: Some(outcome.estimate.half_width).filter(|w| w.is_finite()),
        level: sim::LEVEL,
        workers: spec.workers.len(),
        steps: outcome.steps,
        events: outcome.events,
        simulated_time_s: outcome.time,
        stopped_early: outcome.narrow,
        utilisation: UtilisationView {
            compute: outcome.computing.clone(),
            server_update: outcome.serving.clone(),
            server_nic_in: server(0),
            server_nic_out: server(1),
            worker_nic_in: worker(0),
            worker_nic_out: worker(1),
        },
        staleness: outcome.staleness.clone(),
        series: outcome.series(SLICES),
        sweep,
    }
}

/// The answer for eyes, within 80 columns.
fn sheet(asked: &Asked, spec: &Spec, outcome: &Outcome, view: &SimulationView) -> String {
    let mut text = headline(&asked.job, spec.workers.len());
    let _ = write!(
        text,
        "\n\n  throughput      {:.2}{} samples/s\n  iteration       {:.4} s\n  simulated       {} steps, {} events, {:.1} s{}\n",
        view.throughput_samples_per_s,
        view.half_width_samples_per_s.map_or_else(
            || " (too few steps for an interval)".to_owned(),
            |w| format!(" ± {w:.2} ({:.0} % sure)", view.level * 100.0)
        ),
        view.iteration_time_s,
        view.steps,
        view.events,
        view.simulated_time_s,
        if view.stopped_early {
            "; stopped when sure enough"
        } else {
            ""
        },
    );
    text.push_str("\n  busy\n");
    let mut bar = |name: &str, shares: &[f64]| {
        let most = shares.iter().copied().fold(0.0, f64::max);
        let blocks = "█".repeat((most * 40.0).round() as usize);
        let _ = writeln!(text, "  {name:<15} {:>4.0} % {blocks}", most * 100.0);
    };
    bar("worker compute", &view.utilisation.compute);
    bar("server NIC out", &view.utilisation.server_nic_out);
    bar("server NIC in", &view.utilisation.server_nic_in);
    bar("server update", &view.utilisation.server_update);
    let late: Vec<f64> = outcome
        .staleness
        .iter()
        .map(|counts| {
            let steps: u64 = counts.iter().sum();
            let sum: u64 = counts.iter().enumerate().map(|(d, n)| d as u64 * n).sum();
            sum as f64 / steps.max(1) as f64
        })
        .collect();
    let mean = late.iter().sum::<f64>() / late.len() as f64;
    let most = late.iter().copied().fold(0.0, f64::max);
    let _ = write!(
        text,
        "\n  staleness       {mean:.1} updates on average, {most:.1} for the most delayed worker\n"
    );
    if let Some(sweep) = &view.sweep {
        text.push_str("\n  workers  samples/s\n");
        let top = sweep
            .points
            .iter()
            .map(|p| p.throughput_samples_per_s)
            .fold(0.0, f64::max);
        for point in &sweep.points {
            let blocks = (point.throughput_samples_per_s / top * 40.0).round() as usize;
            let mark = if Some(point.workers) == sweep.saturation_workers {
                "  saturated"
            } else {
                ""
            };
            let _ = writeln!(
                text,
                "  {:>7}  {:>9.2} {}{mark}",
                point.workers,
                point.throughput_samples_per_s,
                "█".repeat(blocks)
            );
        }
        if sweep.saturation_workers.is_none() {
            text.push_str("  no saturation: every further worker adds at least 5 %\n");
        }
    }
    text
}
