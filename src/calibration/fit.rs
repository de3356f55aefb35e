//! Robust least squares on logarithms, drawn towards priors.

use super::Prior;
use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::storage::Owned;
use nalgebra::{DMatrix, DVector, Dyn};

/// Step of the numeric derivative, in units of the logarithm.
const DELTA: f64 = 1e-5;

/// How often the solver may evaluate the model, in multiples of parameters.
const PATIENCE: usize = 40;

/// Fits positive parameters: `residuals` gives, for parameter values, one
/// number for each observation, log(predicted / measured) in units of the
/// expected error. Large residuals count by their size rather than their
/// square, so that an outlier pulls no harder than a miss.
pub fn fit(priors: &[Prior], residuals: &dyn Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
    let start: Vec<f64> = priors.iter().map(|p| p.centre.ln()).collect();
    let problem = Problem {
        priors,
        residuals,
        at: DVector::from_vec(start),
    };
    let solver = LevenbergMarquardt::new().with_patience(PATIENCE);
    let (solved, _) = solver.minimize(problem);
    solved.at.iter().map(|x| x.exp()).collect()
}

struct Problem<'a> {
    priors: &'a [Prior],
    residuals: &'a dyn Fn(&[f64]) -> Vec<f64>,
    at: DVector<f64>,
}

impl Problem<'_> {
    fn evaluate(&self, at: &DVector<f64>) -> DVector<f64> {
        let values: Vec<f64> = at.iter().map(|x| x.exp()).collect();
        let mut all: Vec<f64> = (self.residuals)(&values)
            .into_iter()
            .map(softened)
            .collect();
        for (x, prior) in at.iter().zip(self.priors) {
            all.push((x - prior.centre.ln()) / prior.spread);
        }
        DVector::from_vec(all)
    }
}

/// A number whose square is the soft-L1 loss of `z`: 2(√(1+z²) − 1).
fn softened(z: f64) -> f64 {
    let loss = 2.0 * z.mul_add(z, 1.0).sqrt() - 2.0;
    loss.max(0.0).sqrt().copysign(z)
}

impl LeastSquaresProblem<f64, Dyn, Dyn> for Problem<'_> {
    type ParameterStorage = Owned<f64, Dyn>;
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;

    fn set_params(&mut self, x: &DVector<f64>) {
        self.at.copy_from(x);
    }

    fn params(&self) -> DVector<f64> {
        self.at.clone()
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        Some(self.evaluate(&self.at))
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        let here = self.evaluate(&self.at);
        let mut jacobian = DMatrix::zeros(here.len(), self.at.len());
        let mut moved = self.at.clone();
        for column in 0..self.at.len() {
            moved[column] += DELTA;
            let there = self.evaluate(&moved);
            moved[column] = self.at[column];
            jacobian.set_column(column, &((there - &here) / DELTA));
        }
        Some(jacobian)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIORS: &[Prior] = &[
        Prior {
            centre: 1.0,
            spread: 2.0,
        },
        Prior {
            centre: 1.0,
            spread: 2.0,
        },
    ];

    /// y = a + b·x, made with a = 3, b = 0.5; one observation lies by 10×.
    #[test]
    fn known_parameters_come_back_in_spite_of_an_outlier() {
        let truth = |x: f64| 3.0 + 0.5 * x;
        let mut data: Vec<(f64, f64)> = (0..40).map(f64::from).map(|x| (x, truth(x))).collect();
        data[7].1 *= 10.0;
        let found = fit(PRIORS, &|p| {
            data.iter()
                .map(|(x, y)| ((p[0] + p[1] * x) / y).ln() / 0.02)
                .collect()
        });
        assert!((found[0] / 3.0 - 1.0).abs() < 0.02, "{found:?}");
        assert!((found[1] / 0.5 - 1.0).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn without_observations_the_prior_stays() {
        let found = fit(PRIORS, &|_| Vec::new());
        assert!(found.iter().all(|v| (v - 1.0).abs() < 1e-9), "{found:?}");
    }
}
