//! Networks by name, built from their architecture.

mod alexnet;
mod convnext;
mod densenet;
mod efficientnet;
mod googlenet;
mod inception;
mod mobilenet;
mod overfeat;
mod resnet;
mod resnet_cifar;
mod sprint;
mod squeezenet;
mod transformer;
mod vgg;
mod vit;

pub use sprint::{Convolution as SprintConvolution, sprint};

use super::Workload;
use std::sync::LazyLock;

/// One network of the catalogue.
pub struct Entry {
    /// The name to write into a job.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// What it is, in a line.
    pub about: &'static str,
    /// Tokens a sample unless the job says otherwise; `None` for images.
    pub sequence_length: Option<u32>,
    build: fn(u32) -> Workload,
}

impl Entry {
    /// Builds the network for `sequence_length` tokens a sample (images
    /// ignore it).
    pub fn build(&self, sequence_length: Option<u32>) -> Workload {
        let length = sequence_length.or(self.sequence_length);
        let mut workload = (self.build)(length.unwrap_or(1));
        self.name.clone_into(&mut workload.name);
        workload.sequence_length = self.sequence_length.and(length);
        workload
    }
}

macro_rules! image {
    ($name:literal, $aliases:expr, $about:literal, $build:expr) => {
        Entry {
            name: $name,
            aliases: &$aliases,
            about: $about,
            sequence_length: None,
            build: |_| $build,
        }
    };
}

macro_rules! text {
    ($name:literal, $aliases:expr, $about:literal, $length:literal, $build:expr) => {
        Entry {
            name: $name,
            aliases: &$aliases,
            about: $about,
            sequence_length: Some($length),
            build: $build,
        }
    };
}

/// Every network, oldest family first.
static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    vec![
        image!(
            "alexnet",
            [],
            "torchvision's AlexNet, 256 channels in the fourth convolution",
            alexnet::torchvision()
        ),
        image!(
            "alexnet_tf",
            ["alexnet-tf_cnn_benchmarks"],
            "AlexNet of tf_cnn_benchmarks, 384 channels in the fourth (Zeng 2023)",
            alexnet::tensorflow()
        ),
        image!(
            "overfeat",
            [],
            "OverFeat of tf_cnn_benchmarks, 231×231",
            overfeat::overfeat()
        ),
        image!("vgg11", ["vgg11a"], "VGG-11 (A)", vgg::vgg(vgg::A)),
        image!("vgg13", ["vgg13b"], "VGG-13 (B)", vgg::vgg(vgg::B)),
        image!("vgg16", ["vgg16d"], "VGG-16 (D)", vgg::vgg(vgg::D)),
        image!(
            "vgg16c",
            [],
            "VGG-16 (C), 1×1 convolutions",
            vgg::vgg(vgg::C)
        ),
        image!("vgg19", ["vgg19e"], "VGG-19 (E)", vgg::vgg(vgg::E)),
        image!(
            "googlenet",
            ["inception_v1"],
            "GoogLeNet with batch normalisation, no auxiliary heads",
            googlenet::googlenet()
        ),
        image!(
            "inception_v3",
            ["inception3"],
            "Inception-v3, 299×299, no auxiliary head",
            inception::inception_v3()
        ),
        image!("resnet18", [], "ResNet-18", resnet::basic([2, 2, 2, 2])),
        image!("resnet34", [], "ResNet-34", resnet::basic([3, 4, 6, 3])),
        image!(
            "resnet50",
            [],
            "ResNet-50 (v1.5, stride in the 3×3)",
            resnet::bottleneck([3, 4, 6, 3])
        ),
        image!(
            "resnet101",
            [],
            "ResNet-101",
            resnet::bottleneck([3, 4, 23, 3])
        ),
        image!(
            "resnet152",
            [],
            "ResNet-152",
            resnet::bottleneck([3, 8, 36, 3])
        ),
        image!("densenet121", [], "DenseNet-121", densenet::densenet121()),
        image!(
            "mobilenet_v2",
            [],
            "MobileNet-v2",
            mobilenet::mobilenet_v2()
        ),
        image!(
            "efficientnet_b0",
            [],
            "EfficientNet-B0",
            efficientnet::efficientnet_b0()
        ),
        image!(
            "squeezenet1_1",
            ["squeezenet1.1"],
            "SqueezeNet 1.1",
            squeezenet::squeezenet1_1()
        ),
        image!(
            "vit_b_16",
            ["vit-b/16", "vit_base_patch16_224"],
            "Vision transformer, base, 16×16 patches",
            vit::vit_b_16()
        ),
        image!(
            "convnext_tiny",
            ["convnext_t"],
            "ConvNeXt-T",
            convnext::convnext_tiny()
        ),
        image!(
            "resnet18_cifar",
            ["resnet18-cifar10"],
            "ResNet-18 for 32×32 images",
            resnet_cifar::resnet18()
        ),
        image!(
            "resnet15_cifar",
            ["resnet-15-cifar10"],
            "ResNet-15 of tensor2tensor for CIFAR-10",
            resnet_cifar::tensor2tensor(2)
        ),
        image!(
            "resnet32_cifar",
            ["resnet-32-cifar10"],
            "ResNet-32 of tensor2tensor for CIFAR-10",
            resnet_cifar::tensor2tensor(5)
        ),
        text!(
            "bert_base",
            [],
            "BERT base, a sample is a sequence",
            512,
            |n| transformer::bert(12, 768, 12, n)
        ),
        text!(
            "bert_large",
            [],
            "BERT large, a sample is a sequence",
            512,
            |n| transformer::bert(24, 1024, 16, n)
        ),
        text!(
            "gpt2",
            ["gpt2_small"],
            "GPT-2 (124 M) with its tied output layer",
            1024,
            |n| transformer::gpt2(12, 768, 12, n)
        ),
    ]
});

/// Every network.
pub fn entries() -> &'static [Entry] {
    &ENTRIES
}

/// A network by name, tolerant of case and of `-`, `_`, `.`, `/`.
pub fn find(name: &str) -> Option<&'static Entry> {
    let wanted = fold(name);
    entries().iter().find(|entry| {
        std::iter::once(&entry.name)
            .chain(entry.aliases)
            .any(|known| fold(known) == wanted)
    })
}

/// The names nearest to one that is not there.
pub fn near(name: &str) -> Vec<&'static str> {
    crate::input::near(name, entries().iter().map(|e| e.name))
}

fn fold(name: &str) -> String {
    name.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}
