//! Times of SPRINT's elements, and the coefficients that they give by least
//! squares.

use super::csv::{number, rows};

/// a·x + b.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Linear {
    /// Slope.
    pub a: f64,
    /// Offset.
    pub b: f64,
}

/// Coefficients that a user's own timings gave; elements without any keep
/// what the hardware says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Coefficients {
    /// Seconds a parameter.
    pub fetch: Option<Linear>,
    /// Seconds a sample, and of a round.
    pub load: Option<Linear>,
    /// Seconds a sample, and of a round.
    pub deform: Option<Linear>,
    /// Seconds a sample, and of a round.
    pub gradient: Option<Linear>,
    /// Seconds a parameter.
    pub update_value: Option<Linear>,
    /// Seconds a parameter.
    pub update_gradient: Option<Linear>,
    /// Seconds a parameter of one buffer.
    pub sum_gradient: Option<Linear>,
    /// Seconds a parameter of a node's slice.
    pub old_weights: Option<Linear>,
    /// Seconds a parameter of a node's slice.
    pub add_momentum: Option<Linear>,
    /// Seconds a parameter: `a` for each doubling of the nodes, `b` beside.
    pub all_reduce: Option<Linear>,
    /// Seconds a parameter of a node's slice.
    pub update_momentum: Option<Linear>,
    /// Seconds a parameter.
    pub update_weights: Option<Linear>,
}

/// An element of Tables 3 and 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// `FetchWeights`.
    FetchWeights,
    /// `LoadImage`.
    LoadImage,
    /// `DeformImage`.
    DeformImage,
    /// `ComputeGradient`.
    ComputeGradient,
    /// `ComputeUpdateVal`.
    ComputeUpdateVal,
    /// `UpdateGradient`.
    UpdateGradient,
    /// `SumGradient` of one buffer.
    SumGradient,
    /// `UpdateOldWeights`.
    UpdateOldWeights,
    /// `AddMomentum`.
    AddMomentum,
    /// `Allreduce` without the barrier.
    Allreduce,
    /// `UpdateMomentum`.
    UpdateMomentum,
    /// `UpdateWeights`.
    UpdateWeights,
}

impl Element {
    /// Every element, by the name that a file uses.
    pub const NAMES: [(&'static str, Self); 12] = [
        ("FetchWeights", Self::FetchWeights),
        ("LoadImage", Self::LoadImage),
        ("DeformImage", Self::DeformImage),
        ("ComputeGradient", Self::ComputeGradient),
        ("ComputeUpdateVal", Self::ComputeUpdateVal),
        ("UpdateGradient", Self::UpdateGradient),
        ("SumGradient", Self::SumGradient),
        ("UpdateOldWeights", Self::UpdateOldWeights),
        ("AddMomentum", Self::AddMomentum),
        ("Allreduce", Self::Allreduce),
        ("UpdateMomentum", Self::UpdateMomentum),
        ("UpdateWeights", Self::UpdateWeights),
    ];

    fn slot(self, c: &mut Coefficients) -> &mut Option<Linear> {
        match self {
            Self::FetchWeights => &mut c.fetch,
            Self::LoadImage => &mut c.load,
            Self::DeformImage => &mut c.deform,
            Self::ComputeGradient => &mut c.gradient,
            Self::ComputeUpdateVal => &mut c.update_value,
            Self::UpdateGradient => &mut c.update_gradient,
            Self::SumGradient => &mut c.sum_gradient,
            Self::UpdateOldWeights => &mut c.old_weights,
            Self::AddMomentum => &mut c.add_momentum,
            Self::Allreduce => &mut c.all_reduce,
            Self::UpdateMomentum => &mut c.update_momentum,
            Self::UpdateWeights => &mut c.update_weights,
        }
    }

    /// What the element's slope and offset are multiplied with.
    fn terms(self, t: &ElementTime) -> [f64; 2] {
        match self {
            Self::LoadImage | Self::DeformImage | Self::ComputeGradient => [t.sub_batch, 1.0],
            Self::UpdateOldWeights | Self::AddMomentum | Self::UpdateMomentum => {
                [t.parameters / t.nodes, 0.0]
            }
            Self::Allreduce => [t.parameters * t.nodes.log2(), t.parameters],
            _ => [t.parameters, 0.0],
        }
    }
}

/// How long an element took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ElementTime {
    /// Which.
    pub element: Element,
    /// Nodes of the run.
    pub nodes: f64,
    /// Samples of a round.
    pub sub_batch: f64,
    /// Parameters of the network.
    pub parameters: f64,
    /// How long.
    pub seconds: f64,
}

/// Why timings give no coefficients.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    /// There is none.
    #[error("no element times at all")]
    Empty,
    /// One is impossible.
    #[error("row {0}: times, nodes, sub-batches and parameters must be above zero")]
    Impossible(usize),
}

/// Non-negative coefficients with the least squares of relative errors, for
/// every element that was timed.
pub fn fit(times: &[ElementTime]) -> Result<Coefficients, FitError> {
    if times.is_empty() {
        return Err(FitError::Empty);
    }
    for (row, t) in times.iter().enumerate() {
        let fine = |x: f64| x.is_finite() && x > 0.0;
        if !(fine(t.seconds) && fine(t.nodes) && fine(t.sub_batch) && fine(t.parameters)) {
            return Err(FitError::Impossible(row + 1));
        }
    }
    let mut coefficients = Coefficients::default();
    for (_, element) in Element::NAMES {
        let rows: Vec<[f64; 2]> = times
            .iter()
            .filter(|t| t.element == element)
            .map(|t| element.terms(t).map(|x| x / t.seconds))
            .collect();
        if !rows.is_empty() {
            *element.slot(&mut coefficients) = Some(line(&rows));
        }
    }
    Ok(coefficients)
}

/// The least squares of a·x + b·y − 1 with neither below zero: the free
/// solution where it is inside, else the better of the two edges.
fn line(rows: &[[f64; 2]]) -> Linear {
    let sum = |f: &dyn Fn(&[f64; 2]) -> f64| rows.iter().map(f).sum::<f64>();
    let (xx, xy, yy) = (
        sum(&|r| r[0] * r[0]),
        sum(&|r| r[0] * r[1]),
        sum(&|r| r[1] * r[1]),
    );
    let (x, y) = (sum(&|r| r[0]), sum(&|r| r[1]));
    let only_a = Linear {
        a: if xx > 0.0 { x / xx } else { 0.0 },
        b: 0.0,
    };
    let only_b = Linear {
        a: 0.0,
        b: if yy > 0.0 { y / yy } else { 0.0 },
    };
    let determinant = xx * yy - xy * xy;
    if determinant > 1e-9 * xx * yy {
        let free = Linear {
            a: (x * yy - y * xy) / determinant,
            b: (y * xx - x * xy) / determinant,
        };
        if free.a >= 0.0 && free.b >= 0.0 {
            return free;
        }
    }
    let error = |l: &Linear| sum(&|r| (l.a * r[0] + l.b * r[1] - 1.0).powi(2));
    if yy > 0.0 && error(&only_b) < error(&only_a) {
        only_b
    } else {
        only_a
    }
}

/// Reads a table of element times: `element,nodes,sub_batch,parameters,seconds`.
pub fn read(text: &str) -> Result<Vec<ElementTime>, String> {
    let header = "element,nodes,sub_batch,parameters,seconds";
    rows(text, header)?
        .into_iter()
        .map(|(line, cells)| {
            let element = Element::NAMES
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(&cells[0]))
                .ok_or_else(|| {
                    let names = Element::NAMES.map(|(name, _)| name).join(", ");
                    format!("line {line}: no element `{}`; there are {names}", cells[0])
                })?
                .1;
            let number = |i: usize| number(line, header, i, &cells[i]);
            Ok(ElementTime {
                element,
                nodes: number(1)?,
                sub_batch: number(2)?,
                parameters: number(3)?,
                seconds: number(4)?,
            })
        })
        .collect()
}
