//! Throughput from a record of steps, with an interval from batch means.

/// A step that is over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Done {
    /// When, in seconds.
    pub at: f64,
    /// Samples it brought.
    pub samples: f64,
}

/// A throughput and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Samples a second over everything after the warm-up.
    pub throughput: f64,
    /// Half the width of the interval around it.
    pub half_width: f64,
}

impl Estimate {
    /// The half width as a share of the throughput.
    pub fn relative(&self) -> f64 {
        self.half_width / self.throughput
    }
}

/// Level of the interval.
pub const LEVEL: f64 = 0.95;

/// Two-sided 95 % quantile of Student's t, by degrees of freedom.
fn quantile(freedom: usize) -> f64 {
    const SMALL: [f64; 20] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    ];
    SMALL.get(freedom.wrapping_sub(1)).copied().unwrap_or(2.0)
}

/// Batch means: the record after the warm-up, cut into batches of as many
/// steps each; the spread of the batches' throughputs gives the interval.
/// `together` steps that end at one moment stay in one batch.
pub(super) fn estimate(
    steps: &[Done],
    warm_up: usize,
    batches: usize,
    together: usize,
) -> Estimate {
    let warm_up = warm_up.min(steps.len().saturating_sub(2));
    let (before, after) = steps.split_at(warm_up);
    let begin = before.last().map_or(0.0, |d| d.at);
    let rate = |from: f64, steps: &[Done]| {
        let samples: f64 = steps.iter().map(|d| d.samples).sum();
        let until = steps.last().map_or(from, |d| d.at);
        samples / (until - from)
    };
    let throughput = rate(begin, after);
    let size = after.len() / batches.max(1) / together * together;
    if size == 0 {
        return Estimate {
            throughput,
            half_width: f64::INFINITY,
        };
    }
    let mut from = begin;
    let rates: Vec<f64> = after
        .chunks_exact(size)
        .map(|batch| {
            let r = rate(from, batch);
            from = batch.last().map_or(from, |d| d.at);
            r
        })
        .collect();
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let variance = rates.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    Estimate {
        throughput,
        half_width: quantile(rates.len() - 1) * (variance / count).sqrt(),
    }
}

/// Throughput in equal slices of the whole time: moments and samples a second.
pub(super) fn series(steps: &[Done], slices: usize) -> Vec<(f64, f64)> {
    let Some(last) = steps.last() else {
        return Vec::new();
    };
    let width = last.at / slices as f64;
    let mut sums = vec![0.0; slices];
    for step in steps {
        let slice = ((step.at / width) as usize).min(slices - 1);
        sums[slice] += step.samples;
    }
    let moment = |i: usize| (i as f64 + 1.0) * width;
    sums.iter()
        .enumerate()
        .map(|(i, sum)| (moment(i), sum / width))
        .collect()
}
