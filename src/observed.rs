//! Step times as jobs report them, made into something to trust: the first
//! steps are dropped, each window counts by its median, outliers are kept
//! apart, and steps that were counted before are not counted again.

use std::collections::VecDeque;

/// Steps after a start, or a change of place, that are not looked at:
/// compiling, caches, connections.
pub const WARM_UP: u64 = 5;
/// A sum of so many times the warm-up hardly feels it.
const DILUTED: u64 = 10;
/// Windows that agree with each other and are this far from all before show
/// that something has changed: what was before is forgotten.
const CHANGED: f64 = 0.1;
const AGREEING: usize = 2;
/// Seconds without a word after which a run may begin anew.
const SILENCE: u64 = 60;
/// Steps of a window.
pub const WINDOW: usize = 20;
/// Windows that are kept, the latest.
pub const WINDOWS: usize = 32;
/// Windows that say how fast the job is now.
pub const RECENT: usize = 8;
/// Steps further from their window's median than so many times the typical
/// distance are outliers.
const FAR: f64 = 5.0;
/// Distances below this share of the median are no sign of anything.
const NEAR: f64 = 0.05;

/// Some steps, one after another.
#[derive(Clone, Debug, PartialEq)]
pub enum Steps {
    /// The duration of each, in seconds.
    Each(Vec<f64>),
    /// How many, and the time of all.
    Sum(u64, f64),
}

/// A window of steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// The median step in seconds.
    pub median: f64,
    /// Steps that it stands for.
    pub steps: u64,
    /// When it ended, in seconds since 1970.
    pub at: u64,
}

/// What is known of a job's steps on one set of nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// The highest number of a step that was counted.
    pub seen_upto: u64,
    /// When a report was last taken, in seconds since 1970.
    pub taken_at: u64,
    /// Steps that were counted.
    pub steps: u64,
    /// Of these, outliers.
    pub outliers: u64,
    /// Steps that were dropped at the start.
    pub warm: u64,
    /// The last of those, to show before there is anything better.
    pub warming: Option<f64>,
    /// The window that is not full yet.
    pub current: Vec<f64>,
    /// Full windows, the latest last.
    pub windows: VecDeque<Window>,
}

impl Observed {
    /// Takes steps whose first has the number `first` (0 for unknown) at a
    /// time `now`: how many of them are new.
    pub fn take(&mut self, first: u64, steps: &Steps, now: u64) -> u64 {
        // A run that begins anew under an old name, long after the last word.
        let silent = now.saturating_sub(self.taken_at) > SILENCE;
        if begins(first) && self.seen_upto > DILUTED * WARM_UP && silent {
            self.moved(first);
        }
        self.taken_at = now;
        match steps {
            Steps::Each(seconds) => {
                let known = self.known(first, seconds.len() as u64);
                let new = &seconds[known as usize..];
                self.count(first, seconds.len() as u64, new.len() as u64);
                for &second in new {
                    if self.warm < WARM_UP {
                        self.warm += 1;
                        self.warming = Some(second);
                        continue;
                    }
                    self.current.push(second);
                    if self.current.len() == WINDOW {
                        self.close(now);
                    }
                }
                new.len() as u64
            }
            Steps::Sum(count, seconds) => {
                // Part of a sum cannot be taken away: it is new as a whole or
                // not at all.
                if self.known(first, *count) > 0 {
                    return 0;
                }
                self.count(first, *count, *count);
                let mean = seconds / *count as f64;
                let warming = self.warm < WARM_UP;
                if warming {
                    self.warm = WARM_UP.min(self.warm.saturating_add(*count));
                    self.warming = Some(mean);
                }
                // A sum that holds the warm-up is warm-up, unless it is long.
                if !warming || *count >= DILUTED * WARM_UP {
                    self.push(Window {
                        median: mean,
                        steps: *count,
                        at: now,
                    });
                }
                *count
            }
        }
    }

    /// How many of the steps from `first` on were counted before.
    fn known(&self, first: u64, count: u64) -> u64 {
        if first == 0 {
            return 0;
        }
        (self.seen_upto + 1).saturating_sub(first).min(count)
    }

    fn count(&mut self, first: u64, count: u64, new: u64) {
        if first > 0 {
            self.seen_upto = self.seen_upto.max(first.saturating_add(count) - 1);
        }
        self.steps = self.steps.saturating_add(new);
    }

    /// Another set of nodes, or another job, seen by a report whose first
    /// step has this number: its steps start anew, and so do their numbers
    /// where it begins from the start.
    pub fn moved(&mut self, first: u64) {
        if begins(first) {
            self.seen_upto = 0;
        }
        self.warm = 0;
        self.warming = None;
        self.current.clear();
        self.windows.clear();
    }

    fn close(&mut self, now: u64) {
        let steps = std::mem::take(&mut self.current);
        let Some(middle) = median(&steps) else { return };
        let distances: Vec<f64> = steps.iter().map(|s| (s - middle).abs()).collect();
        let typical = median(&distances).unwrap_or(0.0).max(NEAR * middle);
        let far = distances.iter().filter(|d| **d > FAR * typical).count() as u64;
        self.outliers += far;
        self.push(Window {
            median: middle,
            steps: steps.len() as u64,
            at: now,
        });
    }

    fn push(&mut self, window: Window) {
        if self.windows.len() == WINDOWS {
            self.windows.pop_front();
        }
        self.windows.push_back(window);
        if self.has_changed() {
            let old = self.windows.len() - AGREEING;
            self.windows.drain(..old);
        }
    }

    /// Whether the latest windows agree on something that those before do not.
    fn has_changed(&self) -> bool {
        let medians: Vec<f64> = self.recent().map(|w| w.median).collect();
        let Some(before) = medians.len().checked_sub(AGREEING) else {
            return false;
        };
        let Some(was) = median(&medians[..before]) else {
            return false;
        };
        let latest = &medians[before..];
        let far = |now: &f64| (now / was).ln().abs() > CHANGED;
        let apart = latest.iter().copied().fold(0.0, f64::max)
            / latest.iter().copied().fold(f64::INFINITY, f64::min);
        latest.iter().all(far) && apart.ln() < CHANGED
    }

    /// How much there is to go by, in whole windows.
    pub fn evidence(windows: &[Window]) -> f64 {
        let full = |w: &Window| (w.steps as f64 / WINDOW as f64).min(1.0);
        windows.iter().map(full).sum()
    }

    /// Windows that say how fast the job is now.
    pub fn recent(&self) -> impl DoubleEndedIterator<Item = &Window> {
        let old = self.windows.len().saturating_sub(RECENT);
        self.windows.iter().skip(old)
    }

    /// The step as it is now: the median of the recent windows, or what there
    /// is before the first is full.
    pub fn step(&self) -> Option<f64> {
        let windows: Vec<f64> = self.recent().map(|w| w.median).collect();
        median(&windows)
            .or_else(|| median(&self.current))
            .or(self.warming)
    }
}

/// Whether a number is that of one of a run's first steps.
const fn begins(first: u64) -> bool {
    first > 0 && first <= WARM_UP
}

/// The middle of some numbers; `None` of none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(count: usize, seconds: f64) -> Steps {
        Steps::Each(vec![seconds; count])
    }

    #[test]
    fn the_first_steps_are_dropped_and_outliers_do_not_move_the_median() {
        let mut job = Observed::default();
        job.take(1, &steady(5, 9.0), 0);
        let mut steps = vec![0.1; 20];
        steps[3] = 4.0;
        job.take(6, &Steps::Each(steps), 1);
        assert_eq!(job.step(), Some(0.1));
        assert_eq!((job.steps, job.outliers), (25, 1));
    }

    #[test]
    fn a_report_may_be_repeated_come_late_or_leave_a_gap() {
        let mut job = Observed::default();
        assert_eq!(job.take(1, &steady(30, 0.1), 0), 30);
        assert_eq!(job.take(1, &steady(30, 0.1), 0), 0, "the same again");
        assert_eq!(job.take(21, &steady(20, 0.1), 0), 10, "half of it new");
        assert_eq!(job.take(5, &steady(3, 0.1), 0), 0, "late");
        assert_eq!(job.take(101, &steady(1, 0.1), 0), 1, "after a gap");
        assert_eq!(job.take(91, &Steps::Sum(10, 1.0), 0), 0, "late as a sum");
        assert_eq!(job.take(102, &Steps::Sum(10, 2.0), 0), 10);
        assert_eq!(job.take(105, &Steps::Sum(10, 2.0), 0), 0, "half of a sum");
        assert_eq!(job.steps, 51);
        assert_eq!(job.windows.back().map(|w| w.median), Some(0.2));
    }

    #[test]
    fn a_run_that_begins_anew_is_counted_again() {
        let mut job = Observed::default();
        job.take(1, &steady(100, 0.1), 0);
        assert_eq!(job.take(1, &steady(10, 0.1), 5), 0, "a repeated report");
        assert_eq!(job.take(1, &steady(10, 0.1), 5 + 2 * SILENCE), 10);
        job.moved(11);
        assert_eq!(
            job.take(5, &steady(6, 0.1), 200),
            0,
            "late, from before the move"
        );
    }

    #[test]
    fn memory_is_bounded_however_long_a_job_runs() {
        let mut job = Observed::default();
        for i in 0..10_000_u64 {
            job.take(1 + 7 * i, &steady(7, 0.1), i);
        }
        assert_eq!(job.steps, 70_000);
        assert!(job.windows.len() <= WINDOWS && job.current.len() < WINDOW);
    }

    #[test]
    fn what_a_job_does_now_soon_outweighs_what_it_did() {
        let mut job = Observed::default();
        job.take(0, &steady(1000, 0.1), 0);
        job.take(0, &steady(3 * WINDOW, 0.2), 1);
        assert_eq!(job.step(), Some(0.2));
        assert_eq!(job.windows.len(), 2, "what was before is forgotten");
        // One odd window is none.
        job.take(0, &steady(WINDOW, 0.5), 2);
        job.take(0, &steady(WINDOW, 0.2), 3);
        assert_eq!((job.step(), job.windows.len()), (Some(0.2), 4));
    }
}
