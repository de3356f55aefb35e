//! Laws of the all-reduce models, whatever the job and cluster.

use proptest::prelude::*;
use std::fmt::Write;
use std::sync::Arc;
use stepcast::calibration::Calibration;
use stepcast::cluster::{Cluster, ClusterFile, Defaults};
use stepcast::job::{Algorithm, AllReduce, Batch, Fusion, Job, Precision, Strategy as JobStrategy};
use stepcast::model::liu::{self, Layer, Piecewise};
use stepcast::model::{ModelName, Prediction, Query, predict};
use stepcast::placement::Selection;
use stepcast::units::{Bytes, Seconds};
use stepcast::workload::catalogue;

const NETWORKS: [&str; 5] = [
    "alexnet",
    "vgg11",
    "resnet50",
    "mobilenet_v2",
    "densenet121",
];
const DEVICES: [&str; 4] = [
    "accelerators: {type: t4, count: 4}",
    "accelerators: {type: NVIDIA-H200, count: 8}",
    "accelerators: {type: Tesla-K80, count: 1}",
    "cpu: {type: lab-xeon-1t}",
];

#[derive(Clone, Debug)]
struct Bed {
    network: &'static str,
    batch: u32,
    nodes: Vec<(usize, f64)>,
    strategy: AllReduce,
}

impl Bed {
    fn job(&self) -> Job {
        Job {
            name: None,
            workload: Arc::new(catalogue::find(self.network).expect("known").build(None)),
            batch: Batch::PerWorker(self.batch),
            precision: Precision::Fp32,
            steps: None,
            strategy: JobStrategy::AllReduce(self.strategy),
        }
    }

    fn cluster(&self) -> Cluster {
        let mut text = String::from("nodes:\n");
        for (i, (device, nic)) in self.nodes.iter().enumerate() {
            let _ = writeln!(
                text,
                "- {{name: n{i}, {}, nic_gbps: {nic}}}",
                DEVICES[*device]
            );
        }
        let file = ClusterFile {
            name: "bed",
            text: &text,
        };
        file.read(&Defaults::default())
            .unwrap_or_else(|e| panic!("{e}"))
    }

    fn ask(&self, model: ModelName, workers: Option<usize>) -> Prediction {
        let (job, cluster) = (self.job(), self.cluster());
        predict(&Query {
            job: &job,
            cluster: &cluster,
            selection: &Selection {
                nodes: None,
                workers,
            },
            model: Some(model),
            baseline: None,
            calibration: Calibration::shipped(),
            simulation_events: None,
        })
        .unwrap_or_else(|e| panic!("{e}"))
    }

    fn step(&self) -> f64 {
        self.ask(ModelName::Ring, None).step.time.get()
    }
}

fn fusion() -> impl Strategy<Value = Fusion> {
    prop_oneof![
        Just(Fusion::None),
        (1.0..400.0).prop_map(|mib| Fusion::Buffer {
            buffer: Bytes::from_mib(mib),
            timeout: None
        }),
        (1.0..128.0, 0.0..10.0).prop_map(|(mib, ms)| Fusion::Buffer {
            buffer: Bytes::from_mib(mib),
            timeout: Some(Seconds::from_millis(ms))
        }),
        (1.0..16.0, any::<bool>()).prop_map(|(mib, priority)| Fusion::Partition {
            part: Bytes::from_mib(mib),
            priority
        }),
        Just(Fusion::Adaptive),
        Just(Fusion::MgWfbp),
    ]
}

/// Fusion whose messages do not depend on the network.
fn fixed_fusion() -> impl Strategy<Value = Fusion> {
    prop_oneof![
        Just(Fusion::None),
        (1.0..400.0).prop_map(|mib| Fusion::Buffer {
            buffer: Bytes::from_mib(mib),
            timeout: None
        }),
    ]
}

fn bed_with(fusion: impl Strategy<Value = Fusion>) -> impl Strategy<Value = Bed> {
    (
        0..NETWORKS.len(),
        1_u32..64,
        prop::collection::vec((0..DEVICES.len(), 1.0..200.0), 1..6),
        prop_oneof![
            Just(Algorithm::Ring),
            Just(Algorithm::Tree),
            Just(Algorithm::Hierarchical),
            Just(Algorithm::Auto)
        ],
        any::<bool>(),
        fusion,
    )
        .prop_map(|(network, batch, nodes, algorithm, overlap, fusion)| Bed {
            network: NETWORKS[network],
            batch,
            nodes,
            strategy: AllReduce {
                algorithm,
                overlap,
                fusion,
                ..AllReduce::default()
            },
        })
}

const SLACK: f64 = 1.0 + 1e-9;

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn parts_add_up_and_none_is_negative(bed in bed_with(fusion())) {
        for model in [ModelName::Ring, ModelName::Osf, ModelName::Csf, ModelName::Sum] {
            let answer = bed.ask(model, None);
            let time = answer.step.time.get();
            prop_assert!(time > 0.0 && time.is_finite());
            let sum: f64 = answer.step.parts().iter().map(|p| p.time.get()).sum();
            prop_assert!((sum / time - 1.0).abs() < 1e-9);
            for part in answer.step.parts() {
                prop_assert!(part.time.get() >= -1e-9 * time, "{}: {} of {}", model, part.name, part.time);
            }
        }
    }

    #[test]
    fn a_step_lies_between_its_longest_resource_and_everything_in_sequence(bed in bed_with(fusion())) {
        let answer = bed.ask(ModelName::Ring, None);
        let time = answer.step.time.get();
        prop_assert!(answer.step.bottleneck.busy().get() <= time * SLACK, "{:?}", answer.step.bottleneck);
        prop_assert!(time <= bed.ask(ModelName::Sum, None).step.time.get() * SLACK);
        prop_assert!(bed.ask(ModelName::NoCommunication, None).step.time.get() <= time * SLACK);
    }

    #[test]
    fn more_bandwidth_is_never_slower(bed in bed_with(fixed_fusion()), factor in 1.0..10.0, which in 0_usize..6) {
        let before = bed.step();
        let mut faster = bed;
        let which = which % faster.nodes.len();
        faster.nodes[which].1 *= factor;
        prop_assert!(faster.step() <= before * SLACK);
    }

    #[test]
    fn halving_every_rate_at_most_doubles_the_step(bed in bed_with(fixed_fusion())) {
        let before = bed.step();
        let mut slower = bed;
        slower.nodes.iter_mut().for_each(|n| n.1 /= 2.0);
        prop_assert!(slower.step() <= 2.0 * before * SLACK);
    }

    /// One shape of collective, whole nodes of one kind: the measurements can
    /// break it, the uncalibrated model must not.
    #[test]
    fn another_node_never_shortens_the_step(bed in bed_with(fixed_fusion())) {
        let mut bed = bed;
        bed.strategy.algorithm = Algorithm::Ring;
        let first = bed.nodes[0];
        bed.nodes.iter_mut().for_each(|n| *n = first);
        let before = bed.step();
        bed.nodes.push(first);
        prop_assert!(bed.step() * SLACK >= before);
    }

    #[test]
    fn the_order_of_nodes_changes_nothing(bed in bed_with(fixed_fusion()), turn in 0_usize..6) {
        let before = bed.step();
        let mut turned = bed;
        let by = turn % turned.nodes.len();
        turned.nodes.rotate_left(by);
        prop_assert!((turned.step() / before - 1.0).abs() < 1e-9);
    }

    #[test]
    fn one_worker_is_its_own_baseline(bed in bed_with(fusion())) {
        let answer = bed.ask(ModelName::Ring, Some(1));
        prop_assert!((answer.speedup - 1.0).abs() < 1e-12);
        prop_assert!((bed.ask(ModelName::Osf, Some(1)).speedup - 1.0).abs() < 1e-12);
    }

    /// Liu 2022: adaFusion under its own cost model, and fusion with nothing
    /// to fuse into.
    #[test]
    fn ada_fusion_is_never_slower_than_no_fusion(
        net in prop::collection::vec((0.0..64.0_f64, 0.0..10.0_f64), 1..60),
        a1 in 0.01..1.0_f64, a2 in 0.01..2.0_f64, b in 0.01..5.0_f64,
    ) {
        let layers: Vec<Layer> = net.iter().map(|&(bytes, backward)| Layer { bytes: bytes + 1.0, backward }).collect();
        let cost = Piecewise { a1, b1: b, a2, b2: b + a1 * 4.0, threshold: 16.0 };
        let time = |bytes: f64| cost.time(bytes);
        let none = liu::update_time(&layers, &liu::plan_none(&layers), &time);
        let adaptive = liu::update_time(&layers, &liu::plan_adaptive(&layers, &time), &time);
        prop_assert!(adaptive <= none * SLACK, "{adaptive} against {none}");
        prop_assert_eq!(liu::plan_buffer(&layers, 0.0, f64::INFINITY), liu::plan_none(&layers));
    }

    #[test]
    fn without_backward_time_nothing_overlaps(net in prop::collection::vec(1.0..64.0_f64, 1..30)) {
        let layers: Vec<Layer> = net.iter().map(|&bytes| Layer { bytes, backward: 0.0 }).collect();
        let total: f64 = net.iter().sum();
        let time = |bytes: f64| 0.1 * bytes;
        let osf = liu::osf(10.0, liu::update_time(&layers, &liu::plan_none(&layers), &time), liu::overlap(&layers));
        prop_assert!((osf - liu::csf(10.0, time(total))).abs() < 1e-9);
    }
}

/// A hold of Horovod's cycle is kept however fast the network.
#[test]
fn a_held_message_is_not_sent_early() {
    let bed = |nic: f64| Bed {
        network: "resnet50",
        batch: 32,
        nodes: vec![(0, nic); 2],
        strategy: AllReduce {
            algorithm: Algorithm::Ring,
            fusion: Fusion::Buffer {
                buffer: Bytes::from_mib(64.0),
                timeout: Some(Seconds::from_millis(100.0)),
            },
            ..AllReduce::default()
        },
    };
    let mut last = f64::INFINITY;
    for nic in [8.0, 10.0, 12.0, 14.0, 16.0, 18.0, 20.0, 25.0, 50.0] {
        let step = bed(nic).step();
        assert!(step <= last * 1.02, "{nic} Gb/s: {step} after {last}");
        last = step;
    }
}
