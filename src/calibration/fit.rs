//! Robust least squares on logarithms, drawn towards priors.

use super::Prior;
use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::storage::Owned;
use nalgebra::{DMatrix, DVector, Dyn};

/// Step of the numeric derivative, in units of the logarithm.
const DELTA: f64 = 1e-5;

/// How often the solver may evaluate the model, in multiples of parameters.
const PATIENCE: usize = 40;

/// Residuals of parameter values, one for each observation:
/// log(predicted / measured) in units of the expected error.
type Residuals<'a> = &'a dyn Fn(&[f64]) -> Vec<f64>;

/// Their derivatives by the logarithms of the parameters, a row for each
/// observation; at the values, given the residuals there.
type Derivatives<'a> = &'a dyn Fn(&[f64], &[f64]) -> DMatrix<f64>;

/// What came out of a fit.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The values.
    pub values: Vec<f64>,
    /// Half of what was minimised: misfit and distance from the priors.
    pub cost: f64,
    /// Softened residuals there, without the priors.
    pub residuals: Vec<f64>,
    /// Their derivatives.
    pub jacobian: DMatrix<f64>,
}

/// Fits positive parameters from the centres of their priors, with numeric
/// derivatives. Large residuals count by their size rather than their
/// square, so that an outlier pulls no harder than a miss.
pub fn fit(priors: &[Prior], residuals: Residuals<'_>) -> Vec<f64> {
    let start: Vec<f64> = priors.iter().map(|p| p.centre).collect();
    let derivatives = |at: &[f64], here: &[f64]| {
        let mut columns = DMatrix::zeros(here.len(), at.len());
        let mut moved = at.to_vec();
        for column in 0..at.len() {
            moved[column] = at[column] * DELTA.exp();
            for (row, (there, here)) in residuals(&moved).iter().zip(here).enumerate() {
                columns[(row, column)] = (there - here) / DELTA;
            }
            moved[column] = at[column];
        }
        columns
    };
    solve(priors, &start, residuals, &derivatives).values
}

/// The same from given values, with given derivatives.
pub fn solve(
    priors: &[Prior],
    start: &[f64],
    residuals: Residuals<'_>,
    derivatives: Derivatives<'_>,
) -> Fitted {
    let mut problem = Problem {
        priors,
        residuals,
        derivatives,
        at: DVector::from_iterator(start.len(), start.iter().map(|v| v.ln())),
        here: Vec::new(),
    };
    problem.here = residuals(&problem.values());
    let solver = LevenbergMarquardt::new()
        .with_patience(PATIENCE)
        .with_ftol(1e-5)
        .with_xtol(1e-4);
    let (solved, report) = solver.minimize(problem);
    Fitted {
        values: solved.values(),
        cost: report.objective_function,
        residuals: solved.here.iter().copied().map(softened).collect(),
        jacobian: solved.data_jacobian(),
    }
}

struct Problem<'a> {
    priors: &'a [Prior],
    residuals: Residuals<'a>,
    derivatives: Derivatives<'a>,
    /// Logarithms of the parameters.
    at: DVector<f64>,
    /// Residuals there.
    here: Vec<f64>,
}

impl Problem<'_> {
    fn values(&self) -> Vec<f64> {
        self.at.iter().map(|x| x.exp()).collect()
    }

    /// Derivatives of the softened residuals, without the priors.
    fn data_jacobian(&self) -> DMatrix<f64> {
        let mut columns = (self.derivatives)(&self.values(), &self.here);
        for (row, &z) in self.here.iter().enumerate() {
            let slope = softened_slope(z);
            columns.row_mut(row).iter_mut().for_each(|d| *d *= slope);
        }
        columns
    }
}

/// A number whose square is the soft-L1 loss of `z`: 2(√(1+z²) − 1).
fn softened(z: f64) -> f64 {
    let loss = 2.0 * z.mul_add(z, 1.0).sqrt() - 2.0;
    loss.max(0.0).sqrt().copysign(z)
}

/// How it changes with `z`.
fn softened_slope(z: f64) -> f64 {
    if z.abs() < 1e-4 {
        return 1.0;
    }
    z / z.mul_add(z, 1.0).sqrt() / softened(z)
}

impl LeastSquaresProblem<f64, Dyn, Dyn> for Problem<'_> {
    type ParameterStorage = Owned<f64, Dyn>;
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;

    fn set_params(&mut self, x: &DVector<f64>) {
        self.at.copy_from(x);
        self.here = (self.residuals)(&self.values());
    }

    fn params(&self) -> DVector<f64> {
        self.at.clone()
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        let data = self.here.iter().copied().map(softened);
        let far = |(x, prior): (&f64, &Prior)| (x - prior.centre.ln()) / prior.spread;
        let priors = self.at.iter().zip(self.priors).map(far);
        let all: Vec<f64> = data.chain(priors).collect();
        all.iter()
            .all(|r| r.is_finite())
            .then(|| DVector::from_vec(all))
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        let data = self.data_jacobian();
        let (rows, columns) = data.shape();
        let mut all = data.insert_rows(rows, columns, 0.0);
        for (k, prior) in self.priors.iter().enumerate() {
            all[(rows + k, k)] = 1.0 / prior.spread;
        }
        Some(all)
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
