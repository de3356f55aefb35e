//! Cases computed by hand. Times in ms, sizes in MB: backward 4, 3, 2, 1 and
//! gradients 2, 4, 8, 16 from the front, so ready at 9, 5, 2, 0; compute 15.

use super::*;

const COMPUTE: f64 = 15.0;

fn layers(backward: &[f64], bytes: &[f64]) -> Vec<Layer> {
    let pairs = backward.iter().zip(bytes);
    pairs
        .map(|(&backward, &bytes)| Layer { bytes, backward })
        .collect()
}

fn four() -> Vec<Layer> {
    layers(&[4.0, 3.0, 2.0, 1.0], &[2.0, 4.0, 8.0, 16.0])
}

fn slow(bytes: f64) -> f64 {
    1.5 * bytes + 1.0
}

fn fast(bytes: f64) -> f64 {
    bytes / 8.0 + 1.0
}

fn factor(plan: &[Send], time: &dyn Fn(f64) -> f64) -> f64 {
    let four = four();
    osf(COMPUTE, update_time(&four, plan, time), overlap(&four))
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-9, "{a} against {b}");
}

#[test]
fn equations_5_to_7() {
    close(compute_time(2.0, &[1e9, 2e9], 0.5, 1e12), 0.036);
    close(backward_time(2.0, 1e9, 0.5, 1e12), 0.008);
    let (startup, per_byte) = update_cost(4.0, 1.0, 1.0, f64::INFINITY, 4.0);
    close(startup + 8.0 * per_byte, 13.0);
    let (startup, per_byte) = update_cost(4.0, 1.0, 1.0, 1.0, 4.0);
    close(startup + 8.0 * per_byte, 14.5);
}

#[test]
fn ready_moments_and_overlap_are_equations_8_and_10() {
    assert_eq!(ready(&four()), [9.0, 5.0, 2.0, 0.0]);
    close(overlap(&four()), 9.0);
}

#[test]
fn without_overlap_it_is_one_late_all_reduce() {
    close(csf(COMPUTE, slow(30.0)), 15.0 / 61.0);
}

#[test]
fn overlap_without_fusion_by_hand() {
    let plan = plan_none(&four());
    close(update_time(&four(), &plan, &slow), 49.0);
    close(factor(&plan, &slow), 15.0 / 55.0);
    close(update_time(&four(), &plan, &fast), 10.25);
    close(factor(&plan, &fast), 15.0 / 16.25);
}

#[test]
fn an_empty_buffer_is_no_fusion() {
    assert_eq!(plan_buffer(&four(), 0.0, f64::INFINITY), plan_none(&four()));
}

#[test]
fn buffers_by_hand() {
    for (buffer, timeout, update) in [
        (6.0, f64::INFINITY, 48.0),
        (14.0, f64::INFINITY, 47.0),
        (100.0, f64::INFINITY, 55.0),
        (100.0, 2.5, 52.5),
        // Not fitting comes before the timeout: sent at once.
        (14.0, 1.5, 49.0),
    ] {
        close(
            update_time(&four(), &plan_buffer(&four(), buffer, timeout), &slow),
            update,
        );
    }
    for (timeout, update) in [(f64::INFINITY, 13.75), (2.5, 11.25), (3.0, 13.75)] {
        close(
            update_time(&four(), &plan_buffer(&four(), 100.0, timeout), &fast),
            update,
        );
    }
}

#[test]
fn a_buffer_that_holds_all_equals_csf() {
    let plan = plan_buffer(&four(), 100.0, f64::INFINITY);
    close(factor(&plan, &slow), csf(COMPUTE, slow(30.0)));
}

#[test]
fn plans_that_adapt_by_hand() {
    close(
        update_time(&four(), &plan_adaptive(&four(), &slow), &slow),
        47.0,
    );
    close(
        update_time(&four(), &plan_mg_wfbp(&four(), 1.0, 1.5), &slow),
        47.0,
    );
    assert_eq!(plan_adaptive(&four(), &fast), plan_none(&four()));
    assert_eq!(plan_mg_wfbp(&four(), 1.0, 0.125), plan_none(&four()));
}

/// Eq. 18 with a₁ = ½, b₁ = 1, a₂ = ¼, b₂ = 3 and the bend at 16.
#[test]
fn the_piecewise_time_by_hand() {
    let cost = Piecewise {
        a1: 0.5,
        b1: 1.0,
        a2: 0.25,
        b2: 3.0,
        threshold: 16.0,
    };
    let times = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0].map(|d| cost.time(d));
    assert_eq!(times, [1.0, 1.5, 2.0, 2.5, 7.0, 11.0]);
    let net = layers(&[1.0, 2.0, 1.0, 1.0], &[4.0, 4.0, 8.0, 32.0]);
    let time = |d: f64| cost.time(d);
    close(update_time(&net, &plan_none(&net), &time), 17.5);
    let adaptive = plan_adaptive(&net, &time);
    assert_eq!(
        adaptive.iter().map(|s| s.bytes).collect::<Vec<_>>(),
        [32.0, 12.0, 4.0]
    );
    close(
        update_time(&net, &adaptive, &time),
        11.0 + cost.time(12.0) + 2.0,
    );
    // Planned under the linear cost, judged under the piecewise: MG-WFBP
    // crosses the bend and loses.
    close(
        update_time(&net, &plan_mg_wfbp(&net, 0.5, 0.25), &time),
        18.0,
    );
}

#[test]
fn layers_that_send_nothing_cost_nothing() {
    let net = layers(&[1.0, 1.0, 1.0], &[4.0, 0.0, 8.0]);
    assert_eq!(plan_none(&net).len(), 2);
    close(update_time(&net, &plan_none(&net), &slow), 13.0 + 7.0);
    assert_eq!(plan_buffer(&net, 0.0, f64::INFINITY).len(), 2);
}
