//! The catalogue against the lab's own count of torchvision's networks, and
//! against parameter totals that everybody can look up.

use crate::fixtures;
use serde_json::Value;
use stepcast::workload::catalogue;

/// Each layer of the lab's file stands in ours, in order, with the same
/// tensors, FLOPs and output. Ours has more: additions and joins that are not
/// modules.
#[test]
fn layers_agree_with_the_lab_tensor_by_tensor() {
    for (ours, theirs) in [
        ("alexnet", "alexnet"),
        ("densenet121", "densenet121"),
        ("googlenet", "googlenet"),
        ("inception_v3", "inception_v3"),
        ("mobilenet_v2", "mobilenet_v2"),
        ("resnet18", "resnet18"),
        ("resnet50", "resnet50"),
        ("resnet101", "resnet101"),
        ("vgg11", "vgg11"),
        ("vgg16", "vgg16"),
    ] {
        let file: Value =
            serde_json::from_str(&fixtures::text(&format!("lab/networks/{theirs}.json")))
                .expect("a network file");
        let workload = catalogue::find(ours).expect(ours).build(None);
        let mut rest = workload.layers.iter();
        for layer in file["layers"].as_array().expect("layers") {
            let name = layer["name"].as_str().expect("a name");
            let same = rest
                .find(|l| l.name == name)
                .unwrap_or_else(|| panic!("{ours}: no {name} where it should be"));
            let tensors: Vec<u64> = layer["params"]
                .as_array()
                .expect("params")
                .iter()
                .filter_map(Value::as_u64)
                .collect();
            assert_eq!(same.parameters, tensors, "{ours}: {name}: tensors");
            assert_eq!(
                same.output_elements,
                layer["out"].as_f64().expect("out"),
                "{ours}: {name}: output"
            );
            assert_eq!(
                same.forward_flops.get(),
                layer["fwd_flops"].as_f64().expect("fwd_flops"),
                "{ours}: {name}: FLOPs"
            );
        }
        let total: u64 = file["layers"]
            .as_array()
            .expect("layers")
            .iter()
            .flat_map(|l| l["params"].as_array().expect("params"))
            .filter_map(Value::as_u64)
            .sum();
        assert_eq!(workload.parameters(), total, "{ours}: all parameters");
    }
}

#[test]
fn totals_are_the_published_ones() {
    for (name, parameters) in [
        ("alexnet", 61_100_840),
        ("vgg13", 133_047_848),
        ("vgg19", 143_667_240),
        ("resnet34", 21_797_672),
        ("resnet152", 60_192_808),
        ("efficientnet_b0", 5_288_548),
        ("squeezenet1_1", 1_235_496),
        ("vit_b_16", 86_567_656),
        ("convnext_tiny", 28_589_128),
        ("resnet18_cifar", 11_173_962),
        ("bert_base", 109_482_240),
        ("bert_large", 335_141_888),
        ("gpt2", 124_439_808),
    ] {
        let workload = catalogue::find(name).expect(name).build(None);
        assert_eq!(workload.parameters(), parameters, "{name}");
    }
}

/// Zeng 2023, Table 1 and section 1 of MODELS: weights and forward FLOPs.
#[test]
fn the_papers_alexnet_is_the_one_of_tf_cnn_benchmarks() {
    let workload = catalogue::find("alexnet_tf")
        .expect("alexnet_tf")
        .build(None);
    let weights: u64 = workload
        .layers
        .iter()
        .filter_map(|l| l.parameters.first())
        .sum();
    assert_eq!(weights, 61_827_776);
    assert!((workload.forward_flops().get() / 1.6776e9 - 1.0).abs() < 5e-4);
}

#[test]
fn names_are_found_however_they_are_spelt() {
    for (spelt, name) in [
        ("ResNet-50", "resnet50"),
        ("bert-base", "bert_base"),
        ("resnet-15-cifar10", "resnet15_cifar"),
        ("resnet18-cifar", "resnet18_cifar"),
        ("ViT-B/16", "vit_b_16"),
    ] {
        assert_eq!(catalogue::find(spelt).expect(spelt).name, name);
    }
    assert!(catalogue::find("resnet51").is_none());
}

#[test]
fn gradients_come_in_the_order_of_the_lab_profiles() {
    let file: Value = serde_json::from_str(&fixtures::text("lab/profiles/resnet18-b2-1t.json"))
        .expect("a profile");
    let measured: Vec<u64> = file["grad_ready"]
        .as_array()
        .expect("grad_ready")
        .iter()
        .filter_map(|g| g[1].as_u64())
        .collect();
    let workload = catalogue::find("resnet18").expect("resnet18").build(None);
    let ours: Vec<u64> = workload.gradients().map(|t| t.elements).collect();
    assert_eq!(ours, measured);
}
