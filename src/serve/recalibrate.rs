//! Fits anew on what jobs reported, when enough has been seen or the error
//! drifts. A new calibration is taken only if it is better on observations
//! that it was not fitted on.

use super::reports::{Evidence, Reports};
use super::state::State;
use crate::calibration::Calibration;
use crate::learn::{Learnt, Row, Start, learn};
use crate::runs::Run;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Windows after which it is tried again.
const ENOUGH: u64 = 10;
/// Windows after which it is tried while predictions are off by this much.
const DRIFTING: u64 = 2;
const OFF: f64 = 0.1;
/// A new calibration must be better by this share of the error, and by this
/// much of the step.
const BETTER: f64 = 0.03;
const WORTH: f64 = 0.005;
/// One job counts at most this much in the comparison, however far it is off.
const MOST: f64 = 0.5;
/// Fits are at least so far apart.
const PAUSE: Duration = Duration::from_secs(1);

/// What came of a fit.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) taken: Option<Calibration>,
    pub(crate) reason: String,
    pub(crate) fitted: usize,
    pub(crate) judged: usize,
    pub(crate) before: f64,
    pub(crate) after: f64,
    pub(crate) undetermined: Vec<String>,
    pub(crate) set_aside: Vec<String>,
}

/// Fits on observations, drawn towards `base`, and compares with what is in
/// force.
pub(crate) fn fit(evidence: &Evidence, base: &Calibration, now: &Calibration) -> Outcome {
    let fitted: Vec<&Run> = evidence.fit.iter().collect();
    let mut outcome = Outcome {
        taken: None,
        reason: String::new(),
        fitted: fitted.len(),
        judged: 0,
        before: 0.0,
        after: 0.0,
        undetermined: Vec::new(),
        set_aside: Vec::new(),
    };
    if fitted.is_empty() {
        outcome.reason = "no job has reported a full window of steps yet".into();
        return outcome;
    }
    let Learnt {
        mut calibration,
        undetermined,
        set_aside,
        ..
    } = learn(&fitted, Start::From(base));
    outcome.undetermined = undetermined.iter().map(ToString::to_string).collect();
    outcome.set_aside = set_aside;
    let check = evidence
        .check
        .iter()
        .filter(|run| !outcome.set_aside.contains(&run.id));
    let errors: Vec<(f64, f64)> = check
        .filter_map(|run| {
            let after = error(run, &calibration)?;
            // What could not be predicted before is off by all that counts.
            Some((error(run, now).unwrap_or(MOST), after))
        })
        .collect();
    outcome.judged = errors.len();
    if errors.is_empty() {
        outcome.reason = "too little was seen to judge by what was not fitted on".into();
        return outcome;
    }
    let mean =
        |of: &dyn Fn(&(f64, f64)) -> f64| errors.iter().map(of).sum::<f64>() / errors.len() as f64;
    outcome.before = mean(&|e| e.0);
    outcome.after = mean(&|e| e.1);
    let numbers = format!(
        "mean error {:.1} % instead of {:.1} % on {} observations that were not fitted on",
        outcome.after * 100.0,
        outcome.before * 100.0,
        outcome.judged
    );
    if outcome.after < (outcome.before * (1.0 - BETTER)).min(outcome.before - WORTH) {
        if let Some(provenance) = &mut calibration.provenance {
            provenance.held_out_error = Some(outcome.after);
        }
        outcome.taken = Some(calibration);
        outcome.reason = format!("taken: {numbers}");
    } else {
        outcome.reason = format!("the one in force stays: {numbers}");
    }
    outcome
}

/// Size of the relative error, capped; `None` without a prediction.
fn error(run: &Run, calibration: &Calibration) -> Option<f64> {
    let row = Row::new(run, calibration).ok()?;
    let predicted = row.predict(calibration);
    let error = (predicted / run.step_time_s - 1.0).abs();
    error.is_finite().then(|| error.min(MOST))
}

/// Fits now, and puts the result in force where it is better.
pub(crate) async fn recalibrate(state: &Arc<State>, reports: &Arc<Reports>) -> Outcome {
    let one_at_a_time = state.fitting.lock().await;
    let evidence = reports.evidence();
    let base = state.base();
    let before = Arc::clone(&state.snapshot().calibration);
    let now = Arc::clone(&before);
    let done = tokio::task::spawn_blocking(move || fit(&evidence, &base, &now)).await;
    let mut outcome = match done {
        Ok(outcome) => outcome,
        Err(error) => {
            tracing::error!(%error, "a fit on observations failed");
            state.metrics.recalibrated("failed");
            return Outcome {
                taken: None,
                reason: format!("the fit failed: {error}"),
                fitted: 0,
                judged: 0,
                before: 0.0,
                after: 0.0,
                undetermined: Vec::new(),
                set_aside: Vec::new(),
            };
        }
    };
    let Some(calibration) = &mut outcome.taken else {
        state.metrics.recalibrated("kept");
        tracing::debug!(reason = outcome.reason, "recalibrated");
        return outcome;
    };
    calibration.version = Some(state.new_version("observed"));
    if let Some(provenance) = &mut calibration.provenance {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        provenance.fitted_at = now.ok().map(|d| d.as_secs());
    }
    if !state.put_instead(calibration.clone(), &before) {
        // Somebody imported or rolled back meanwhile, and knows better.
        outcome.taken = None;
        outcome.reason = "another calibration was put in force during the fit; it stays".into();
        state.metrics.recalibrated("kept");
        return outcome;
    }
    state.metrics.recalibrated("taken");
    tracing::info!(
        version = calibration.version,
        reason = outcome.reason,
        "recalibrated"
    );
    changed(state, reports).await;
    drop(one_at_a_time);
    outcome
}

/// Another calibration is in force: predictions of jobs follow, and it is
/// kept.
pub(crate) async fn changed(state: &Arc<State>, reports: &Arc<Reports>) {
    let calibration = Arc::clone(&state.snapshot().calibration);
    reports.recalibrated(&calibration, &state.metrics);
    let all = state.all_versions();
    let texts = all.iter().filter_map(|c| serde_yaml::to_string(&**c).ok());
    let versions = serde_yaml::to_string(&state.versions_state()).unwrap_or_default();
    let kept = reports.keep_calibrations(texts.collect(), versions).await;
    if let Ok(Err(error)) = kept {
        tracing::error!(%error, "the calibration cannot be kept; it is lost with the process");
    }
}

/// Waits for news and fits when there is reason to.
pub(crate) async fn watch(state: Arc<State>, reports: Arc<Reports>) {
    let mut tried_at = reports.standing().0;
    loop {
        reports.news.notified().await;
        let (windows, error) = reports.standing();
        let off = error.is_some_and(|error| error > OFF);
        let wanted = if off { DRIFTING } else { ENOUGH };
        if windows - tried_at < state.patience(wanted) {
            continue;
        }
        tried_at = windows;
        recalibrate(&state, &reports).await;
        tokio::time::sleep(PAUSE).await;
    }
}
