//! Liu et al. 2022: the overlapped scaling factor (OSF), tensor fusion and
//! adaFusion, exactly as published, read where the print is at odds with
//! itself as `docs/models.md` says. Layers count from the front; the clock
//! starts when the last layer's backward pass ends.

/// A layer as the model sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layer {
    /// Gradient bytes, D⁽ⁱ⁾.
    pub bytes: f64,
    /// Backward time, eq. 6.
    pub backward: f64,
}

/// Scaling factor without overlap, eq. 2.
pub fn csf(compute: f64, communication: f64) -> f64 {
    compute / (compute + communication)
}

/// Overlapped scaling factor, eq. 3.
pub fn osf(compute: f64, update: f64, overlap: f64) -> f64 {
    compute / (compute + update - overlap)
}

/// Compute time of a step, eq. 5: three times the forward FLOPs.
pub fn compute_time(batch: f64, forward_flops: &[f64], utilisation: f64, peak: f64) -> f64 {
    forward_flops
        .iter()
        .map(|c| 3.0 * batch * c / (utilisation * peak))
        .sum()
}

/// Backward time of a layer, eq. 6.
pub fn backward_time(batch: f64, forward_flops: f64, utilisation: f64, peak: f64) -> f64 {
    2.0 * batch * forward_flops / (utilisation * peak)
}

/// Time of one all-reduce, eq. 7, as `(start-up, seconds a byte)`.
pub fn update_cost(
    workers: f64,
    bandwidth: f64,
    overhead: f64,
    peak: f64,
    element: f64,
) -> (f64, f64) {
    let per_byte = 2.0 * (workers - 1.0) / (bandwidth * workers)
        + (workers - 1.0) / (workers * peak * element);
    (overhead, per_byte)
}

/// Piecewise time of a message, eq. 18: logarithmic below the bandwidth–delay
/// product, linear above.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piecewise {
    /// Seconds a doubling, below.
    pub a1: f64,
    /// Seconds at one byte, below.
    pub b1: f64,
    /// Seconds a byte, above.
    pub a2: f64,
    /// Start-up, above.
    pub b2: f64,
    /// Where they part.
    pub threshold: f64,
}

impl Piecewise {
    /// The time of a message.
    pub fn time(&self, bytes: f64) -> f64 {
        if bytes < self.threshold {
            self.a1 * bytes.log2() + self.b1
        } else {
            self.a2 * bytes + self.b2
        }
    }
}

/// One message: the buffer as it is sent after a layer's backward pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Send {
    /// The last layer that joined, from the front.
    pub layer: usize,
    /// Bytes in the buffer.
    pub bytes: f64,
    /// How long it was held for a layer that did not come in time.
    pub wait: f64,
}

/// When each layer's gradients are ready: Σ of the backward times from it up
/// to, not with, the last layer (eq. 8).
pub fn ready(layers: &[Layer]) -> Vec<f64> {
    let mut moments = vec![0.0; layers.len()];
    for i in (0..layers.len().saturating_sub(1)).rev() {
        moments[i] = moments[i + 1] + layers[i].backward;
    }
    moments
}

/// The overlap, eq. 10.
pub fn overlap(layers: &[Layer]) -> f64 {
    let last = layers.len().saturating_sub(1);
    layers[..last].iter().map(|l| l.backward).sum()
}

/// The update, eq. 9 and 16: a transfer starts when its buffer is full and the
/// one before has ended.
pub fn update_time(layers: &[Layer], plan: &[Send], time: &dyn Fn(f64) -> f64) -> f64 {
    let ready = ready(layers);
    plan.iter().fold(0.0_f64, |end, send| {
        end.max(ready[send.layer] + send.wait) + time(send.bytes)
    })
}

/// No fusion: every layer by itself. A layer that sends nothing costs nothing.
pub fn plan_none(layers: &[Layer]) -> Vec<Send> {
    (0..layers.len())
        .rev()
        .filter(|&layer| layers[layer].bytes > 0.0)
        .map(|layer| Send {
            layer,
            bytes: layers[layer].bytes,
            wait: 0.0,
        })
        .collect()
}

/// Fusion with a buffer and a timeout, eq. 12–15 as the text has them: sent
/// after the last layer, or when the next would not fit (at once), or when
/// the next takes longer than the timeout (after it).
pub fn plan_buffer(layers: &[Layer], buffer: f64, timeout: f64) -> Vec<Send> {
    let mut plan = Vec::new();
    let mut bytes = 0.0;
    for layer in (0..layers.len()).rev() {
        bytes += layers[layer].bytes;
        let wait = match layer.checked_sub(1).map(|next| &layers[next]) {
            None => Some(0.0),
            Some(next) if bytes + next.bytes > buffer => Some(0.0),
            Some(next) if next.backward > timeout => Some(timeout),
            Some(_) => None,
        };
        if let Some(wait) = wait {
            if bytes > 0.0 {
                plan.push(Send { layer, bytes, wait });
            }
            bytes = 0.0;
        }
    }
    plan
}

/// adaFusion, eq. 17: a layer joins the buffer only if sending both together,
/// waiting included, beats sending them one after the other.
pub fn plan_adaptive(layers: &[Layer], time: &dyn Fn(f64) -> f64) -> Vec<Send> {
    let ready = ready(layers);
    let mut plan = Vec::new();
    let Some(mut held) = layers.len().checked_sub(1) else {
        return plan;
    };
    let (mut bytes, mut end) = (layers[held].bytes, 0.0_f64);
    for layer in (0..held).rev() {
        let own = layers[layer].bytes;
        let start = end.max(ready[held]);
        let wait = (ready[layer] - start).max(0.0);
        let joined =
            bytes <= 0.0 || own <= 0.0 || time(bytes + own) + wait < time(bytes) + time(own);
        if joined {
            bytes += own;
            // A layer that sends nothing holds nobody up.
            if own <= 0.0 {
                continue;
            }
        } else {
            plan.push(Send {
                layer: held,
                bytes,
                wait: 0.0,
            });
            end = start + time(bytes);
            bytes = own;
        }
        held = layer;
    }
    if bytes > 0.0 {
        plan.push(Send {
            layer: held,
            bytes,
            wait: 0.0,
        });
    }
    plan
}

/// MG-WFBP as its authors define it: a layer merges into the next when that
/// is ready before this one's transfer could have started plus one start-up.
/// The plan is made with the linear cost.
pub fn plan_mg_wfbp(layers: &[Layer], startup: f64, per_byte: f64) -> Vec<Send> {
    let ready = ready(layers);
    let mut plan = Vec::new();
    let (mut bytes, mut end) = (0.0, 0.0_f64);
    for layer in (0..layers.len()).rev() {
        bytes += layers[layer].bytes;
        let start = end.max(ready[layer]);
        let merges = layer > 0 && (bytes <= 0.0 || ready[layer - 1] < start + startup);
        if !merges && bytes > 0.0 {
            plan.push(Send {
                layer,
                bytes,
                wait: 0.0,
            });
            end = start + startup + per_byte * bytes;
            bytes = 0.0;
        }
    }
    plan
}

#[cfg(test)]
mod tests;
