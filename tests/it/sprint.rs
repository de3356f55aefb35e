//! SPRINT: the paper's identities, the fixed point against a simulation of
//! its threads and locks, fits and interpolation that give back what is known.

use stepcast::measured::{Element, ElementTime, GemmTable, Product, fit};
use stepcast::model::sprint::{Elements, Facts, Reading, simulate, solve};

fn facts(nodes: u32, gpus: u32, sub_batch: u32) -> Facts {
    Facts {
        nodes,
        gpus,
        sub_batch,
        parameters: 2e6,
        parameter_bytes: 4.0,
        sample_bytes: 6e5,
        gradient_s: 4e-3 * f64::from(sub_batch) + 10e-3,
        host_link: 12e9,
        device_memory: 5e11,
        host_memory: 2e10,
        nic: 1.2e9,
        latency_s: 2e-5,
    }
}

#[test]
fn identities_9_and_10_hold() {
    for nodes in [1, 2, 8] {
        for gpus in [1, 4] {
            let e = Elements::of(&facts(nodes, gpus, 16));
            let r = solve(&e, Reading::Corrected).expect("settled");
            let each_round = f64::from(nodes * gpus * 16);
            // Samples a second are the same by rounds, updates and epochs.
            let speed = each_round / r.gpu;
            assert!((r.minibatch(&e) / r.update / speed - 1.0).abs() < 1e-12);
            assert!((1e6 / r.epoch(&e, 1e6) / speed - 1.0).abs() < 1e-12);
        }
    }
}

#[test]
fn the_published_barrier_vanishes_where_the_paper_says() {
    let one = solve(&Elements::of(&facts(1, 4, 8)), Reading::Paper).expect("settled");
    assert_eq!(one.barrier, 0.0, "one node waits for nobody");
    // A slow network: every buffer is fresh at every update.
    let mut slow = facts(8, 4, 1);
    slow.nic = 2e7;
    let all_fresh = solve(&Elements::of(&slow), Reading::Paper).expect("settled");
    assert!(all_fresh.update > all_fresh.gpu);
    assert_eq!(all_fresh.barrier, 0.0, "p is 1");
    let between = solve(&Elements::of(&facts(8, 4, 32)), Reading::Paper).expect("settled");
    assert!(between.barrier > 0.0);
}

/// Threads, locks and all-reduce as they run, against the fixed point, where
/// lock holders are met at random: the gradient varies by at least a third of
/// the longest critical section, which is at most a tenth of a round.
#[test]
fn the_fixed_point_agrees_with_the_threads_within_five_percent() {
    let (mut worst, mut worst_paper, mut cases) = (0.0_f64, 0.0_f64, 0);
    for nodes in [1, 2, 4, 8] {
        for gpus in [1, 2, 3, 4] {
            for sub_batch in [4, 16, 64] {
                for nic in [1e8, 1.2e9] {
                    let mut f = facts(nodes, gpus, sub_batch);
                    f.nic = nic;
                    let e = Elements::of(&f);
                    let variation = 0.2;
                    let corrected = solve(&e, Reading::Corrected).expect("settled");
                    let random = variation * e.gradient >= 0.3 * e.update_gradient
                        && e.update_gradient <= 0.1 * corrected.gpu;
                    if !random {
                        continue;
                    }
                    let paper = solve(&e, Reading::Paper).expect("settled");
                    let seen = simulate(&e, variation, 400, u64::from(nodes * 100 + gpus));
                    let off = |a: f64, b: f64| (a / b - 1.0).abs();
                    let error = off(corrected.gpu, seen.gpu)
                        .max(off(corrected.update, seen.update))
                        .max(off(corrected.minibatch(&e), seen.minibatch));
                    worst = worst.max(error);
                    worst_paper = worst_paper.max(off(paper.update, seen.update));
                    cases += 1;
                    assert!(
                        error <= 0.05,
                        "{nodes} nodes, {gpus} GPUs, {sub_batch} samples, {nic} B/s: {error}"
                    );
                }
            }
        }
    }
    println!(
        "{cases} cases: worst {:.1} % (as printed in the paper: {:.1} %)",
        worst * 100.0,
        worst_paper * 100.0
    );
    assert!(cases >= 60, "{cases}");
}

#[test]
fn the_threads_count_what_identity_9_says() {
    let e = Elements::of(&facts(4, 2, 16));
    let seen = simulate(&e, 0.1, 600, 5);
    let identity = 4.0 * 2.0 * 16.0 * seen.update / seen.gpu;
    assert!((seen.minibatch / identity - 1.0).abs() < 0.01);
    assert_eq!(seen, simulate(&e, 0.1, 600, 5), "the same seed");
}

#[test]
fn timings_give_their_coefficients_back() {
    let mut times = Vec::new();
    for nodes in [2.0_f64, 4.0, 8.0, 16.0] {
        for sub_batch in [1.0, 8.0, 64.0] {
            for parameters in [1e5, 1e6, 1e7] {
                let row = |element, seconds| ElementTime {
                    element,
                    nodes,
                    sub_batch,
                    parameters,
                    seconds,
                };
                times.push(row(Element::LoadImage, 2e-4 * sub_batch + 3e-3));
                times.push(row(
                    Element::Allreduce,
                    (2e-9 * nodes.log2() + 5e-9) * parameters,
                ));
                times.push(row(Element::AddMomentum, 4e-10 * parameters / nodes));
            }
        }
    }
    let fitted = fit(&times).expect("coefficients");
    let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a} is not {b}");
    let load = fitted.load.expect("timed");
    close(load.a, 2e-4);
    close(load.b, 3e-3);
    let reduce = fitted.all_reduce.expect("timed");
    close(reduce.a, 2e-9);
    close(reduce.b, 5e-9);
    close(fitted.add_momentum.expect("timed").a, 4e-10);
    assert_eq!(fitted.fetch, None, "nothing is made up");
}

/// A machine that is not in the span of the model's terms: tiles and a peak.
fn machine(size: [f64; 3]) -> f64 {
    let [m, n, k] = size;
    let tiles = (m / 64.0).ceil() * (n / 64.0).ceil();
    5e-6 + tiles * 64.0 * 64.0 * k * 2.0 / 4e12 + (m * n + m * k + n * k) * 4.0 / 3e11
}

#[test]
fn products_are_interpolated() {
    let axis: Vec<f64> = (4..=12).map(|i| f64::from(1 << i)).collect();
    let mut products = Vec::new();
    for &m in &axis {
        for &n in &axis {
            for &k in &axis {
                products.push(Product {
                    size: [m, n, k],
                    seconds: machine([m, n, k]),
                });
            }
        }
    }
    let whole = GemmTable::new(products.clone()).expect("a table");
    // At measured sizes it gives what was measured.
    for p in products.iter().step_by(37) {
        assert!((whole.time(p.size) / p.seconds - 1.0).abs() < 1e-9);
    }
    let holes: Vec<Product> = products
        .iter()
        .copied()
        .enumerate()
        .filter(|(i, _)| i % 3 != 1)
        .map(|(_, p)| p)
        .collect();
    let holes = GemmTable::new(holes).expect("a table");
    let mut errors = [Vec::new(), Vec::new()];
    for i in 0..400_u32 {
        let pick =
            |j: u32| 20.0 * 200.0_f64.powf(f64::from((i * 7919 + j * 104_729) % 1000) / 1000.0);
        let size = [pick(1), pick(2), pick(3)];
        for (table, errors) in [&whole, &holes].into_iter().zip(&mut errors) {
            errors.push((table.time(size) / machine(size) - 1.0).abs());
        }
    }
    for (errors, what) in errors.iter_mut().zip(["whole table", "a third missing"]) {
        errors.sort_by(f64::total_cmp);
        println!(
            "{what}: median {:.1} %, worst {:.0} %",
            errors[200] * 100.0,
            errors[399] * 100.0
        );
        assert!(errors[200] < 0.10, "{what}: {}", errors[200]);
    }
}
