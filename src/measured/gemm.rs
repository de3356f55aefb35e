//! A user's own table of matrix products (Oyama 2016, 5 and 6).
//!
//! Within a cell of measured sizes the paper's local linear model in mnk, mn,
//! mk, nk, m, n, k is exactly trilinear interpolation, and needs no solving.
//! Where a corner is missing, the eight nearest in log space are fitted.

use super::csv::{number, rows};
use nalgebra::{DMatrix, DVector};

/// One measured product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Product {
    /// Rows, columns and depth.
    pub size: [f64; 3],
    /// How long it took.
    pub seconds: f64,
}

/// Measured products.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GemmTable {
    products: Vec<Product>,
    /// Sizes that occur, ascending, for each dimension.
    axes: [Vec<f64>; 3],
}

/// Why a table cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GemmError {
    /// Too few rows.
    #[error("{0} products are too few: a table needs at least 8")]
    Few(usize),
    /// A number is impossible.
    #[error("row {0}: sizes and times must be above zero")]
    Impossible(usize),
}

const NEIGHBOURS: usize = 8;

impl GemmTable {
    /// From measured products.
    pub fn new(products: Vec<Product>) -> Result<Self, GemmError> {
        for (row, p) in products.iter().enumerate() {
            let fine = |x: f64| x.is_finite() && x > 0.0;
            if !p.size.iter().copied().all(fine) || !fine(p.seconds) {
                return Err(GemmError::Impossible(row + 1));
            }
        }
        if products.len() < NEIGHBOURS {
            return Err(GemmError::Few(products.len()));
        }
        let axes = [0, 1, 2].map(|d| {
            let mut axis: Vec<f64> = products.iter().map(|p| p.size[d]).collect();
            axis.sort_by(f64::total_cmp);
            axis.dedup();
            axis
        });
        Ok(Self { products, axes })
    }

    /// Time of a product of any size.
    pub fn time(&self, size: [f64; 3]) -> f64 {
        self.in_cell(size)
            .unwrap_or_else(|| self.by_neighbours(size))
    }

    /// Trilinear between the eight corners, where all were measured.
    fn in_cell(&self, size: [f64; 3]) -> Option<f64> {
        let mut corners = [[0.0; 2]; 3];
        let mut shares = [0.0; 3];
        for d in 0..3 {
            let axis = &self.axes[d];
            let above = axis.partition_point(|&x| x < size[d]);
            let high = *axis.get(above)?;
            let low = if high == size[d] {
                high
            } else {
                *axis.get(above.checked_sub(1)?)?
            };
            corners[d] = [low, high];
            shares[d] = if high > low {
                (size[d] - low) / (high - low)
            } else {
                0.0
            };
        }
        let mut time = 0.0;
        for corner in 0..8_usize {
            let side = |d: usize| corner >> d & 1;
            let weight: f64 = (0..3)
                .map(|d| {
                    if side(d) == 1 {
                        shares[d]
                    } else {
                        1.0 - shares[d]
                    }
                })
                .product();
            if weight > 0.0 {
                let at = [0, 1, 2].map(|d| corners[d][side(d)]);
                time += weight * self.products.iter().find(|p| p.size == at)?.seconds;
            }
        }
        Some(time)
    }

    /// A local linear model of the eight nearest, drawn towards time in
    /// proportion to mnk where they do not say.
    fn by_neighbours(&self, size: [f64; 3]) -> f64 {
        let distance =
            |p: &Product| -> f64 { (0..3).map(|d| (p.size[d] / size[d]).ln().powi(2)).sum() };
        let mut near: Vec<(f64, Product)> =
            self.products.iter().map(|p| (distance(p), *p)).collect();
        near.select_nth_unstable_by(NEIGHBOURS - 1, |a, b| a.0.total_cmp(&b.0));
        near.truncate(NEIGHBOURS);
        let volume = |s: [f64; 3]| s[0] * s[1] * s[2];
        let scaled = |p: &Product| p.seconds * volume(size) / volume(p.size);
        let (mut weights, mut logs) = (0.0, 0.0);
        for (d, p) in &near {
            let weight = 1.0 / (d + 1e-9);
            weights += weight;
            logs += weight * scaled(p).ln();
        }
        let prior = (logs / weights).exp();
        let bounds = near.iter().flat_map(|(_, p)| [scaled(p), p.seconds]);
        let (low, high) = bounds.fold((f64::INFINITY, 0.0_f64), |(l, h), t| (l.min(t), h.max(t)));
        match local(&near, size, prior) {
            Some(time) if time >= low && time <= high => time,
            _ => prior,
        }
    }
}

/// The paper's terms, in units of the size asked for.
fn terms(size: [f64; 3], unit: [f64; 3]) -> [f64; NEIGHBOURS] {
    let [m, n, k] = [0, 1, 2].map(|d| size[d] / unit[d]);
    [m * n * k, m * n, m * k, n * k, m, n, k, 1.0]
}

/// Ridge regression of relative errors around `prior`·mnk.
fn local(near: &[(f64, Product)], size: [f64; 3], prior: f64) -> Option<f64> {
    const RIDGE: f64 = 1e-3;
    let rows = near.len();
    let mut matrix = DMatrix::zeros(rows, NEIGHBOURS);
    let mut rest = DVector::zeros(rows);
    for (i, (_, p)) in near.iter().enumerate() {
        let x = terms(p.size, size);
        for (j, x) in x.iter().enumerate() {
            matrix[(i, j)] = x / p.seconds;
        }
        rest[i] = 1.0 - prior * x[0] / p.seconds;
    }
    let norms: Vec<f64> = (0..NEIGHBOURS).map(|j| matrix.column(j).norm()).collect();
    for (j, norm) in norms.iter().enumerate() {
        matrix
            .column_mut(j)
            .scale_mut(1.0 / norm.max(f64::MIN_POSITIVE));
    }
    let svd = matrix.svd(true, true);
    let (u, v) = (svd.u?, svd.v_t?);
    let top = svd.singular_values.max();
    let mut solution = DVector::zeros(NEIGHBOURS);
    for (i, &s) in svd.singular_values.iter().enumerate() {
        if s > 1e-6 * top {
            let gain = s / (s * s + (RIDGE * top).powi(2));
            solution += v.row(i).transpose() * (gain * u.column(i).dot(&rest));
        }
    }
    // All terms are one at the size asked for.
    let added: f64 = solution.iter().zip(&norms).map(|(x, n)| x / n).sum();
    let time = prior + added;
    (time.is_finite() && time > 0.0).then_some(time)
}

/// Reads a table of products: `m,n,k,seconds`.
pub fn read(text: &str) -> Result<GemmTable, String> {
    let header = "m,n,k,seconds";
    let products: Vec<Product> = rows(text, header)?
        .into_iter()
        .map(|(line, cells)| {
            let number = |i: usize| number(line, header, i, &cells[i]);
            Ok(Product {
                size: [number(0)?, number(1)?, number(2)?],
                seconds: number(3)?,
            })
        })
        .collect::<Result<_, String>>()?;
    GemmTable::new(products).map_err(|error| error.to_string())
}
