//! The simulator: closed forms where there are any, laws everywhere.

use proptest::prelude::*;
use stepcast::job::Sync;
use stepcast::model::zeng;
use stepcast::sim::{
    Costs, Failure, Graph, Heap, Host, Limits, Network, Operation, Order, Outcome, Resource, Route,
    Server, Spec, Tracer, Watch, Worker, simulate, simulate_watched,
};
use stepcast::units::Seconds;

const NEVER: &dyn Fn() -> bool = &|| false;

fn op(resource: Resource, bytes: f64, after: &[u32]) -> Operation {
    Operation {
        name: format!("{resource:?}"),
        resource,
        bytes,
        after: after.to_vec(),
    }
}

/// Pull everything, compute, push everything.
fn in_turn(bytes: f64) -> Graph {
    Graph::new(vec![
        op(Resource::Down(0), bytes, &[]),
        op(Resource::Compute, 0.0, &[0]),
        op(Resource::Up(0), bytes, &[1]),
    ])
    .expect("a step")
}

/// Two layers; transfers run while they compute.
fn overlapped(a: f64, b: f64, servers: u32) -> Graph {
    let second = servers - 1;
    Graph::new(vec![
        op(Resource::Down(0), a, &[]),
        op(Resource::Down(second), b, &[]),
        op(Resource::Compute, 0.0, &[0]),
        op(Resource::Compute, 0.0, &[1, 2]),
        op(Resource::Compute, 0.0, &[3]),
        op(Resource::Compute, 0.0, &[4]),
        op(Resource::Up(second), b, &[4]),
        op(Resource::Up(0), a, &[5]),
        op(Resource::Server(0), 0.0, &[7]),
    ])
    .expect("a step")
}

fn spec(graph: Graph, kinds: Vec<Vec<f64>>, rate: f64, sync: Sync) -> Spec {
    let workers = kinds.len() as u32;
    Spec {
        graph,
        workers: (0..workers)
            .map(|w| Worker {
                kind: w,
                host: w,
                samples: 1.0,
                slowness: 1.0,
            })
            .collect(),
        kinds: kinds.into_iter().map(|c| vec![Costs(c)]).collect(),
        servers: vec![Server {
            host: workers,
            cores: 1,
        }],
        hosts: vec![Host::both(rate); workers as usize + 1],
        sync,
        barrier_s: 0.0,
        order: Order::Forward,
        window: f64::INFINITY,
        jitter: 0.0,
        unfairness: 0.0,
        failures: Vec::new(),
    }
}

fn run(spec: &Spec, steps: u32) -> Outcome {
    let limits = Limits {
        steps,
        warm_up: steps / 10,
        tolerance: 0.0,
        ..Limits::default()
    };
    simulate(spec, &limits, 7, NEVER).expect("an outcome")
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-9 * b.abs(), "{a} is not {b}");
}

#[test]
fn one_worker_takes_its_critical_path() {
    // Down 3 s and 5 s in turn, forward 1 s and 2 s, backward 4 s and 1 s.
    let costs = vec![0.0, 0.0, 1.0, 2.0, 4.0, 1.0, 0.0, 0.0, 0.5];
    let spec = spec(overlapped(3.0, 5.0, 1), vec![costs], 1.0, Sync::Asp);
    let outcome = run(&spec, 50);
    // The second layer waits for its weights at 8 s; forward ends at 10, its
    // gradient leaves from 14 to 19, the first layer's from 19 to 22.
    close(outcome.iteration_s(&spec), 22.5);
    close(outcome.computing[0], 8.0 / 22.5);
    close(outcome.links[0][0], 8.0 / 22.5);
}

#[test]
fn in_step_with_whole_pushes_it_is_algorithm_1() {
    for compute in [
        vec![1.0, 1.0, 1.0],
        vec![1.0, 2.5, 9.0],
        vec![0.3, 0.4, 0.5, 7.0, 7.1],
    ] {
        let bytes = 0.7;
        let kinds = compute.iter().map(|&c| vec![0.0, c, 0.0]).collect();
        let spec = spec(in_turn(bytes), kinds, 1.0, Sync::Bsp);
        let ascending: Vec<(Seconds, f64)> =
            compute.iter().map(|&c| (Seconds::new(c), 1.0)).collect();
        let transfer = Seconds::new(bytes);
        let published = zeng::unequal(&ascending, transfer, transfer);
        close(run(&spec, 40).iteration_s(&spec), published.get());
    }
}

fn rates(workers: usize, active: &[(usize, usize)], nic: f64) -> Vec<f64> {
    let servers = 2;
    let mut capacity = vec![nic; workers];
    capacity.extend([1.0; 2]);
    let routes: Vec<Route> = (0..workers)
        .flat_map(|w| {
            (0..servers).map(move |s| Route {
                worker_pipe: w as u32,
                server_pipe: (workers + s) as u32,
            })
        })
        .collect();
    let mut network = Network::new(capacity, &routes, 0);
    let mut timers = Heap::new(network.slots() as usize);
    for &(w, s) in active {
        network.begin((w * servers + s) as u32, 1e9, 1.0, 0.0, &mut timers);
    }
    network.settle(0.0, &mut timers);
    network.rates().map(|(_, rate)| rate).collect()
}

/// Li 2020, section 5: a server's bandwidth is shared equally; a worker alone
/// on one server that contends with n − 1 others on the other gets 1/n there
/// and 1 − 1/n here.
#[test]
fn two_servers_share_as_the_paper_says() {
    for n in 2..=6_usize {
        let both: Vec<(usize, usize)> = (0..n).flat_map(|w| [(w, 0), (w, 1)]).collect();
        for rate in rates(n, &both, 1.0) {
            close(rate, 1.0 / n as f64);
        }
        let mut alone = vec![(0, 0)];
        alone.extend((0..n).map(|w| (w, 1)));
        let got = rates(n, &alone, 1.0);
        close(got[0], 1.0 - 1.0 / n as f64);
        for rate in &got[1..] {
            close(*rate, 1.0 / n as f64);
        }
    }
    // The only worker on both: its own NIC is shared, half each.
    assert_eq!(rates(1, &[(0, 0), (0, 1)], 1.0), [0.5, 0.5]);
}

#[test]
fn what_a_slow_worker_leaves_the_others_share() {
    let got = rates(3, &[(0, 0), (1, 0), (2, 0)], 0.2);
    assert_eq!(got, [0.2; 3], "three slow NICs leave the server idle");
}

/// Looks at every moment: nothing over capacity, time never back.
#[derive(Default)]
struct Inspector {
    now: f64,
    worst: f64,
    looks: u64,
    starved: bool,
}

impl Watch for Inspector {
    const WATCHES: bool = true;

    fn span(&mut self, _: u32, _: u32, start: f64, end: f64) {
        assert!(start <= end && end <= self.now.max(end));
    }

    fn moment(&mut self, now: f64, network: &Network) {
        assert!(now >= self.now, "time ran back from {} to {now}", self.now);
        self.now = now;
        self.looks += 1;
        let capacity = network.capacity();
        let mut load = vec![0.0; capacity.len()];
        for (route, rate) in network.rates() {
            self.starved |= rate <= 0.0;
            load[route.worker_pipe as usize] += rate;
            load[route.server_pipe as usize] += rate;
        }
        for (load, capacity) in load.iter().zip(capacity) {
            self.worst = self.worst.max(load / capacity);
        }
        // Max–min fair: everyone is held up by a full pipe.
        for (route, _) in network.rates() {
            let full = |pipe: u32| load[pipe as usize] >= 0.999_999 * capacity[pipe as usize];
            assert!(full(route.worker_pipe) || full(route.server_pipe));
        }
    }
}

fn any_sync() -> impl Strategy<Value = Sync> {
    prop_oneof![
        Just(Sync::Asp),
        Just(Sync::Bsp),
        (0u32..4).prop_map(Sync::Ssp)
    ]
}

prop_compose! {
    fn any_spec()(
        workers in 1usize..7,
        servers in 1u32..4,
        sync in any_sync(),
        shared_host in any::<bool>(),
        servers_on_workers in any::<bool>(),
        window in prop_oneof![Just(f64::INFINITY), 0.1f64..5.0],
        jitter in prop_oneof![Just(0.0), 0.0f64..0.5],
        order in prop_oneof![Just(Order::Forward), Just(Order::Reverse), Just(Order::Random)],
        rates in prop::collection::vec(0.2f64..5.0, 16),
        compute in prop::collection::vec(0.0f64..2.0, 64),
        bytes in (0.01f64..4.0, 0.01f64..4.0),
        failure in prop::option::of((0u32..7, 1.0f64..20.0, prop::option::of(0.5f64..9.0))),
    ) -> Spec {
        let graph = overlapped(bytes.0, bytes.1, servers);
        let kinds: Vec<Vec<f64>> = (0..workers)
            .map(|w| {
                let mut costs = compute[w * 9..w * 9 + 9].to_vec();
                for transfer in [0, 1, 6, 7] {
                    costs[transfer] = 0.0;
                }
                costs
            })
            .collect();
        let mut spec = spec(graph, kinds, 1.0, sync);
        let hosts = workers + servers as usize;
        spec.hosts = rates[..hosts].iter().map(|&rate| Host::both(rate)).collect();
        if shared_host && workers > 1 {
            spec.workers[1].host = 0;
        }
        spec.servers = (0..servers)
            .map(|s| Server {
                host: if servers_on_workers && (s as usize) < workers { s } else { workers as u32 + s },
                cores: 1 + s,
            })
            .collect();
        spec.window = window;
        spec.jitter = jitter;
        spec.unfairness = jitter;
        spec.order = order;
        if let Some((worker, at, after)) = failure {
            spec.failures.push(Failure { worker, at, back: after.map(|a| at + a) });
        }
        spec
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Capacity is respected at every moment, shares are max–min fair, time
    /// only goes on, and no operation is lost: steps go on to the end.
    #[test]
    fn links_are_never_over_full_and_nothing_is_lost(spec in any_spec()) {
        let limits = Limits { steps: 20, warm_up: 2, tolerance: 0.0, ..Limits::default() };
        let mut inspector = Inspector::default();
        let outcome = simulate_watched(&spec, &limits, 3, NEVER, &mut inspector);
        prop_assert!(inspector.worst <= 1.0 + 1e-9, "{}", inspector.worst);
        prop_assert!(!inspector.starved);
        match outcome {
            Ok(outcome) => {
                prop_assert!(outcome.steps >= 20 * spec.workers.len() as u64);
                prop_assert!(outcome.events >= outcome.steps);
                for busy in outcome.computing.iter().chain(outcome.links.iter().flatten()) {
                    prop_assert!((0.0..=1.0 + 1e-9).contains(busy), "{}", busy);
                }
            }
            // Only the one worker there was can have been lost.
            Err(error) => prop_assert!(
                spec.workers.len() == 1 && !spec.failures.is_empty(), "{}", error
            ),
        }
    }

    /// Without stragglers, jitter or failures: asynchronous is never slower
    /// than in step, and staleness allowed lies between them.
    #[test]
    fn waiting_never_helps_equal_workers(workers in 1usize..6, compute in 0.1f64..3.0, bytes in 0.05f64..2.0) {
        let time = |sync| {
            let kinds = vec![vec![0.0, compute, 0.0]; workers];
            let spec = spec(in_turn(bytes), kinds, 1.0, sync);
            run(&spec, 200).iteration_s(&spec)
        };
        let (bsp, ssp, asp) = (time(Sync::Bsp), time(Sync::Ssp(2)), time(Sync::Asp));
        prop_assert!(asp <= bsp * 1.01, "asp {asp} bsp {bsp}");
        prop_assert!(ssp <= bsp * 1.01, "ssp {ssp} bsp {bsp}");
        // No resource is busy for more than all of the time.
        let most = (workers as f64 * bytes).max(compute + 2.0 * bytes);
        prop_assert!(asp >= most * 0.99, "asp {asp} below {most}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let specs: Vec<Spec> = (1..=6)
        .map(|n| {
            let kinds = vec![vec![0.0, 0.0, 0.3, 0.2, 0.5, 0.1, 0.0, 0.0, 0.05]; n];
            let mut spec = spec(overlapped(0.2, 0.4, 1), kinds, 1.0, Sync::Asp);
            spec.jitter = 0.2;
            spec
        })
        .collect();
    let limits = Limits {
        steps: 100,
        ..Limits::default()
    };
    let on = |threads: usize, seed: u64| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let runs = pool
            .expect("threads")
            .install(|| stepcast::sim::sweep(&specs, &limits, seed, &|| false));
        format!("{runs:?}")
    };
    let one = on(1, 42);
    assert_eq!(one, on(2, 42));
    assert_eq!(one, on(5, 42));
    assert_ne!(one, on(1, 43), "another seed, another run");
}

#[test]
fn one_more_is_never_seen_further_ahead_than_the_staleness_allows() {
    let mut spec = spec(
        in_turn(0.01),
        vec![vec![0.0, 1.0, 0.0], vec![0.0, 10.0, 0.0]],
        1.0,
        Sync::Ssp(3),
    );
    let bounded = run(&spec, 100);
    // The fast one waits for the slow one: both go at the slow one's pace.
    assert!((bounded.iteration_s(&spec) / 10.0 - 1.0).abs() < 0.05);
    spec.sync = Sync::Asp;
    let free = run(&spec, 100);
    assert!(free.estimate.throughput > 5.0 * bounded.estimate.throughput);
    // Under asp, the slow one's gradients are many updates late.
    let late = |o: &Outcome, w: usize| {
        let (sum, count) = o.staleness[w]
            .iter()
            .enumerate()
            .fold((0, 0), |(s, c), (late, n)| (s + late as u64 * n, c + n));
        sum as f64 / count as f64
    };
    assert!(late(&free, 1) > 8.0 && late(&free, 0) < 1.0);
    assert!(late(&bounded, 1) < 4.0);
}

#[test]
fn a_straggler_holds_up_those_in_step_only() {
    let mut bsp = spec(in_turn(0.001), vec![vec![0.0, 1.0, 0.0]; 4], 1.0, Sync::Bsp);
    bsp.workers[2].slowness = 3.0;
    let mut asp = bsp.clone();
    asp.sync = Sync::Asp;
    assert!((run(&bsp, 50).estimate.throughput - 4.0 / 3.0).abs() < 0.05);
    assert!((run(&asp, 50).estimate.throughput - 10.0 / 3.0).abs() < 0.05);
}

#[test]
fn a_failed_worker_is_missed_and_comes_back() {
    let mut spec = spec(in_turn(0.001), vec![vec![0.0, 1.0, 0.0]; 4], 1.0, Sync::Bsp);
    spec.failures.push(Failure {
        worker: 1,
        at: 20.5,
        back: Some(60.2),
    });
    let outcome = run(&spec, 100);
    let series = outcome.series(20);
    let at = |moment: f64| {
        let slice = series.iter().find(|(t, _)| *t > moment).expect("a slice");
        slice.1
    };
    assert!((at(8.0) - 4.0).abs() < 0.5, "{series:?}");
    assert!((at(40.0) - 3.0).abs() < 0.5, "{series:?}");
    assert!((at(90.0) - 4.0).abs() < 0.5, "{series:?}");
    spec.failures = (0..4)
        .map(|worker| Failure {
            worker,
            at: 5.0,
            back: None,
        })
        .collect();
    let error = simulate(&spec, &Limits::default(), 1, NEVER).expect_err("all are gone");
    assert!(error.to_string().contains("all workers have failed"));
}

#[test]
fn it_gives_up_when_told_to() {
    let spec = spec(in_turn(0.1), vec![vec![0.0, 1.0, 0.0]; 3], 1.0, Sync::Asp);
    let limits = Limits {
        steps: 1_000_000,
        tolerance: 0.0,
        events: 100_000,
        ..Limits::default()
    };
    let error = simulate(&spec, &limits, 1, NEVER).expect_err("too many events");
    assert!(
        error.to_string().contains("limit of 100000 events"),
        "{error}"
    );
    let error = simulate(&spec, &limits, 1, &|| true).expect_err("no time");
    assert!(error.to_string().contains("ran out of time"), "{error}");
}

#[test]
fn it_stops_when_it_is_sure_enough() {
    let mut spec = spec(in_turn(0.1), vec![vec![0.0, 1.0, 0.0]; 3], 1.0, Sync::Asp);
    spec.jitter = 0.1;
    let limits = |tolerance| Limits {
        steps: 100_000,
        warm_up: 10,
        tolerance,
        ..Limits::default()
    };
    let rough = simulate(&spec, &limits(0.02), 1, NEVER).expect("an outcome");
    let fine = simulate(&spec, &limits(0.002), 1, NEVER).expect("an outcome");
    assert!(rough.narrow && fine.narrow);
    assert!(rough.steps < fine.steps && fine.steps < 300_000);
    assert!(fine.estimate.relative() <= 0.002);
    let apart = rough.estimate.throughput - fine.estimate.throughput;
    assert!(apart.abs() <= 2.0 * rough.estimate.half_width);
}

#[test]
fn a_trace_holds_every_operation_in_its_place() {
    let costs = vec![0.0, 0.0, 1.0, 2.0, 4.0, 1.0, 0.0, 0.0, 0.5];
    let spec = spec(overlapped(3.0, 5.0, 1), vec![costs; 2], 1.0, Sync::Asp);
    let mut tracer = Tracer {
        most: 10_000,
        ..Tracer::default()
    };
    let limits = Limits {
        steps: 5,
        warm_up: 1,
        ..Limits::default()
    };
    let outcome = simulate_watched(&spec, &limits, 1, NEVER, &mut tracer).expect("an outcome");
    assert!(tracer.spans.len() as u64 >= outcome.steps * spec.graph.len() as u64);
    for worker in 0..2 {
        // A device does one thing at a time.
        let mut computing: Vec<_> = tracer
            .spans
            .iter()
            .filter(|s| s.worker == worker)
            .filter(|s| spec.graph.operations[s.op as usize].resource == Resource::Compute)
            .collect();
        computing.sort_by(|a, b| a.start.total_cmp(&b.start));
        assert!(computing.windows(2).all(|w| w[0].end <= w[1].start + 1e-12));
    }
}
