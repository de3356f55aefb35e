//! The rival: Pollux's model of throughput (Qiao et al., OSDI 2021), seven
//! parameters for each job, fitted as its authors do (`adaptdl/goodput.py`):
//! `T = (T_c^γ + T_n^γ)^(1/γ)` with `T_c = α_c + β_c·batch` and
//! `T_n = α + β·(K − 2)`, of one node or of several, K workers.

use crate::job::Strategy;
use crate::runs::Run;
use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::storage::Owned;
use nalgebra::{DMatrix, DVector, Dyn};

/// What the authors' search may not go below.
const LEAST: f64 = 1e-8;
/// Their weights of large γ and of retrogression.
const GAMMA_WEIGHT: f64 = 1e-3;
const RETROGRESSION_WEIGHT: f64 = 1e-2;
/// Their bound of γ.
const MOST_GAMMA: f64 = 10.0;
/// `α_c`, `β_c`, `α_n`, `β_n`, `α_r`, `β_r`.
const START: [f64; 6] = [1e-1, 1e-2, 1e-1, 1e-2, 1e-1, 1e-2];
/// Rounds in which the weight of the penalties follows the error.
const ROUNDS: usize = 8;
const DELTA: f64 = 1e-6;

/// One model for each job that was seen.
#[derive(Clone, Debug, Default)]
pub struct Pollux {
    fits: Vec<(String, [f64; 7])>,
}

/// A run as the model sees it.
#[derive(Clone, Copy, Debug)]
struct Point {
    nodes: f64,
    workers: f64,
    batch: f64,
    time: f64,
    /// Time without synchronising, where it was measured.
    compute: Option<f64>,
}

/// Jobs that share a model: the same network trained the same way on the
/// same devices.
fn key(run: &Run) -> Option<String> {
    if !matches!(run.job.strategy, Strategy::AllReduce(_) | Strategy::Single) {
        return None;
    }
    let mut devices: Vec<&str> = run
        .cluster
        .nodes
        .iter()
        .filter(|n| n.workers() > 0)
        .filter_map(|n| n.device())
        .map(|d| &*d.name)
        .collect();
    devices.sort_unstable();
    devices.dedup();
    Some(format!(
        "{} {} {} {}",
        run.group,
        run.job.workload.name,
        run.job.precision,
        devices.join(",")
    ))
}

fn point(run: &Run) -> Point {
    let workers = run.cluster.workers();
    Point {
        nodes: run.cluster.nodes.iter().filter(|n| n.workers() > 0).count() as f64,
        workers: workers as f64,
        batch: f64::from(run.job.batch.of_worker(0, workers)),
        time: run.step_time_s,
        compute: run.exposed_sync_s.map(|sync| run.step_time_s - sync),
    }
}

impl Pollux {
    /// Fits on runs.
    pub fn fit(runs: &[&Run]) -> Self {
        let mut jobs: Vec<(String, Vec<Point>)> = Vec::new();
        for run in runs {
            let Some(key) = key(run) else { continue };
            match jobs.iter_mut().find(|(k, _)| *k == key) {
                Some((_, points)) => points.push(point(run)),
                None => jobs.push((key, vec![point(run)])),
            }
        }
        let fits = jobs.into_iter().map(|(key, points)| (key, fit(&points)));
        Self {
            fits: fits.collect(),
        }
    }

    /// The step time of a run, where its job was seen.
    pub fn predict(&self, run: &Run) -> Option<f64> {
        let key = key(run)?;
        let (_, parameters) = self.fits.iter().find(|(k, _)| *k == key)?;
        Some(time(parameters, &point(run)))
    }
}

fn time(p: &[f64; 7], point: &Point) -> f64 {
    let compute = p[0] + p[1] * point.batch;
    let (alpha, beta) = if point.nodes > 1.0 {
        (p[2], p[3])
    } else if point.workers > 1.0 {
        (p[4], p[5])
    } else {
        (LEAST, LEAST)
    };
    let network = alpha + beta * (point.workers - 2.0).max(LEAST);
    let gamma = p[6];
    // Scaled by the larger, so that no power overflows.
    let most = compute.max(network);
    most * ((compute / most).powf(gamma) + (network / most).powf(gamma)).powf(1.0 / gamma)
}

/// The authors minimise the root mean squared log error of the step, plus
/// that of computing where it was measured, plus penalties. A square root is
/// a sum of squares whose weight follows the error. From several starts,
/// since their objective has several valleys.
fn fit(points: &[Point]) -> [f64; 7] {
    let mut best: Option<Problem<'_>> = None;
    for gamma in [-7.0, -2.0, 0.0] {
        let found = descend(points, gamma);
        if best
            .as_ref()
            .is_none_or(|b| found.objective() < b.objective())
        {
            best = Some(found);
        }
    }
    let mut parameters = best.map_or([LEAST; 7], |b| b.parameters());
    if !points.iter().any(|p| p.nodes > 1.0) {
        // Several nodes are at least as slow as one.
        parameters[2] = parameters[2].max(1.1 * parameters[4]);
        parameters[3] = parameters[3].max(1.1 * parameters[5]);
    }
    parameters
}

fn descend(points: &[Point], gamma: f64) -> Problem<'_> {
    let held = held(points);
    let mut problem = Problem {
        points,
        held,
        weights: [1.0; 2],
        at: DVector::from_element(7, 0.0),
    };
    for (k, start) in START.iter().enumerate() {
        problem.at[k] = if held[k] { LEAST.ln() } else { start.ln() };
    }
    problem.at[6] = gamma;
    let first = points.first().map_or(0.0, |p| p.batch);
    if points.iter().all(|p| p.batch == first) {
        // One batch size cannot part α_c from β_c.
        let mean = points.iter().map(|p| p.time).sum::<f64>() / points.len().max(1) as f64;
        problem.at[0] = (mean / 2.0).max(LEAST).ln();
        problem.held[0] = true;
    }
    for _ in 0..ROUNDS {
        let solver = LevenbergMarquardt::new().with_patience(200);
        let (solved, _) = solver.minimize(problem);
        problem = solved;
        let errors = problem.errors();
        problem.weights = errors.map(|e| 0.5 / e.max(1e-6));
    }
    problem
}

/// Parameters that the authors fix where nothing was seen of them.
fn held(points: &[Point]) -> [bool; 7] {
    let across = points.iter().any(|p| p.nodes > 1.0);
    let within = points.iter().any(|p| p.nodes == 1.0 && p.workers > 1.0);
    let more_than_two = points.iter().any(|p| p.workers > 2.0);
    [
        false,
        false,
        !across,
        !across || !more_than_two,
        !within,
        !within || !more_than_two,
        false,
    ]
}

struct Problem<'a> {
    points: &'a [Point],
    held: [bool; 7],
    /// Weights of the mean squared errors, of the step and of computing.
    weights: [f64; 2],
    /// Logarithms, and the logit of γ's place between its bounds.
    at: DVector<f64>,
}

impl Problem<'_> {
    fn parameters(&self) -> [f64; 7] {
        let mut p = [0.0; 7];
        for (value, x) in p.iter_mut().zip(self.at.iter()).take(6) {
            *value = x.exp().max(LEAST);
        }
        p[6] = 1.0 + (MOST_GAMMA - 1.0) / (1.0 + (-self.at[6]).exp());
        p
    }

    /// Log errors of the step, then of computing.
    fn logs(&self, p: &[f64; 7]) -> [Vec<f64>; 2] {
        let steps = self.points.iter().map(|x| (time(p, x) / x.time).ln());
        let computing = self.points.iter().filter_map(|x| {
            let measured = x.compute.filter(|t| *t > 0.0)?;
            Some(((p[0] + p[1] * x.batch) / measured).ln())
        });
        [steps.collect(), computing.collect()]
    }

    /// Roots of the mean squared log errors.
    fn errors(&self) -> [f64; 2] {
        self.logs(&self.parameters()).map(|logs| {
            let squares: f64 = logs.iter().map(|e| e * e).sum();
            (squares / logs.len().max(1) as f64).sqrt()
        })
    }

    /// Roots of the penalties.
    fn penalties(p: &[f64; 7]) -> [f64; 3] {
        let retrogression = RETROGRESSION_WEIGHT.sqrt();
        [
            GAMMA_WEIGHT.sqrt() * (p[6] - 1.0),
            retrogression * p[3] / p[2],
            retrogression * p[5] / p[4],
        ]
    }

    /// What the authors minimise.
    fn objective(&self) -> f64 {
        let penalties = Self::penalties(&self.parameters());
        self.errors().iter().sum::<f64>() + penalties.iter().map(|x| x * x).sum::<f64>()
    }

    fn all(&self) -> DVector<f64> {
        let p = self.parameters();
        let mut all: Vec<f64> = Vec::with_capacity(2 * self.points.len() + 3);
        for (logs, weight) in self.logs(&p).iter().zip(self.weights) {
            let share = (weight / logs.len().max(1) as f64).sqrt();
            all.extend(logs.iter().map(|e| share * e));
        }
        all.extend(Self::penalties(&p));
        DVector::from_vec(all)
    }
}

impl LeastSquaresProblem<f64, Dyn, Dyn> for Problem<'_> {
    type ParameterStorage = Owned<f64, Dyn>;
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;

    fn set_params(&mut self, x: &DVector<f64>) {
        for k in 0..7 {
            if !self.held[k] {
                self.at[k] = x[k];
            }
        }
    }

    fn params(&self) -> DVector<f64> {
        self.at.clone()
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        Some(self.all())
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        let here = self.all();
        let mut columns = DMatrix::zeros(here.len(), 7);
        for k in (0..7).filter(|&k| !self.held[k]) {
            let mut moved = Problem {
                points: self.points,
                held: self.held,
                weights: self.weights,
                at: self.at.clone(),
            };
            moved.at[k] += DELTA;
            columns.set_column(k, &((moved.all() - &here) / DELTA));
        }
        Some(columns)
    }
}
