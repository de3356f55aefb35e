//! Reads the `workload` of a job.

use super::{Layer, LayerKind, Totals, Workload, catalogue};
use crate::input::{Field, Tree};
use crate::job::Resolve;
use crate::units::{Flops, Unit};

/// Layers that one workload may have.
pub const MAX_LAYERS: usize = 100_000;

/// Tokens that one sample may have.
const MAX_TOKENS: u64 = 1 << 20;

/// Pixels a side, channels and units that SPRINT's form may have.
const MAX_WIDTH: u64 = 1 << 16;

/// A workload by name, totals, layers, profile, or SPRINT's form.
pub fn read(field: &Field<'_>, resolve: Resolve<'_>) -> Option<Workload> {
    match field.tree() {
        Tree::Text(name) => named(field, name, None),
        Tree::Map(entries) => {
            let has = |key| entries.iter().any(|(k, _)| k == key);
            if has("onnx") {
                field.refuse(
                    "`onnx`",
                    "a workload by name, totals, layers or profile",
                    Some("reading ONNX files is not there yet; give the layers instead".into()),
                );
                None
            } else if has("layers") {
                layers(field)
            } else if has("profile") {
                profile(field, resolve)
            } else if has("sprint") {
                sprint(field)
            } else {
                totals(field)
            }
        }
        _ => {
            field.problem("a network's name, or a map that describes one", None);
            None
        }
    }
}

fn named(field: &Field<'_>, name: &str, sequence_length: Option<u32>) -> Option<Workload> {
    let entry = catalogue::find(name);
    if entry.is_none() {
        let near = catalogue::near(name);
        let hint = if near.is_empty() {
            "`stepcast workloads` lists the known ones; a map with `parameters` and \
             `forward_flops` describes another"
                .to_owned()
        } else {
            format!("did you mean {}?", near.join(" or "))
        };
        field.problem("a known network", Some(hint));
    }
    entry.map(|entry| entry.build(sequence_length))
}

fn totals(field: &Field<'_>) -> Option<Workload> {
    let keys = [
        "name",
        "parameters",
        "forward_flops",
        "tensors",
        "sequence_length",
        "layers",
        "profile",
    ];
    let object = field.object("a workload", &keys)?;
    let name = object.get("name").map(|f| f.text("a name"));
    let name = match name {
        Some(read) => Some(read?),
        None => None,
    };
    let length = object.get("sequence_length").map(|f| {
        f.count_within(1, MAX_TOKENS, "tokens a sample")
            .map(|n| n as u32)
    });
    let length = match length {
        Some(read) => Some(read?),
        None => None,
    };
    let entry = name.and_then(catalogue::find);
    if let (Some(entry), Some(length)) = (entry, object.get("sequence_length"))
        && entry.sequence_length.is_none()
    {
        length.problem("no `sequence_length` for a network that reads images", None);
    }
    let only_named = ["parameters", "forward_flops", "tensors"]
        .iter()
        .all(|key| object.get(key).is_none());
    if let (true, Some(name), Some(_)) = (only_named, name, entry) {
        return named(field, name, length);
    }
    let parameters = object
        .require("parameters", "the number of trainable parameters")
        .and_then(|f| f.positive(Unit::None));
    let flops = object.get("forward_flops").map(|f| f.positive(Unit::None));
    let tensors = object.get("tensors").map(|f| f.small_count(1, "tensors"));
    if tensors.flatten().is_some_and(|t| t as usize > MAX_LAYERS) {
        field.problem(format!("at most {MAX_LAYERS} tensors"), None);
        return None;
    }
    let totals = Totals {
        name: name.map(str::to_owned),
        parameters: parameters?,
        forward_flops: flops.flatten().map(Flops::new),
        tensors: tensors.flatten(),
        sequence_length: length,
    };
    totals
        .build()
        .inspect_err(|error| field.problem(format!("totals that can be: {error}"), None))
        .ok()
}

fn layers(field: &Field<'_>) -> Option<Workload> {
    let object = field.object("a workload of layers", &["name", "layers"])?;
    let name = object.get("name").map(|f| f.text("a name"));
    let list = object.get("layers")?;
    let items = list.items("a list of layers, in forward order");
    if items.is_empty() && matches!(list.tree(), Tree::List(_)) {
        list.problem("at least one layer", None);
    }
    if items.len() > MAX_LAYERS {
        list.problem(format!("at most {MAX_LAYERS} layers"), None);
        return None;
    }
    let read: Vec<Option<Layer>> = items.iter().enumerate().map(|(i, f)| layer(i, f)).collect();
    let layers: Vec<Layer> = read.into_iter().collect::<Option<_>>()?;
    if layers.is_empty() {
        return None;
    }
    if layers.iter().all(|l| l.parameters.is_empty()) {
        list.problem(
            "a layer with parameters",
            Some("nothing would be learnt".into()),
        );
        return None;
    }
    let name = name.flatten().unwrap_or("layers");
    Some(Workload::new(name, layers))
}

fn layer(index: usize, field: &Field<'_>) -> Option<Layer> {
    let keys = [
        "name",
        "forward_flops",
        "parameters",
        "output_elements",
        "kind",
    ];
    let object = field.object("a layer", &keys)?;
    let name = object.get("name").map(|f| f.text("a name"));
    let flops = object
        .require("forward_flops", "FLOPs of the forward pass of one sample")
        .and_then(|f| f.non_negative(Unit::None));
    let output = object
        .get("output_elements")
        .map_or(Some(0.0), |f| f.non_negative(Unit::None));
    let kind = object
        .get("kind")
        .map_or(Some(LayerKind::Unspecified), |f| {
            f.choice(&[
                ("convolution", LayerKind::Convolution),
                ("depthwise", LayerKind::Depthwise),
                ("linear", LayerKind::Linear),
                ("attention", LayerKind::Attention),
                ("batch_norm", LayerKind::BatchNorm),
                ("layer_norm", LayerKind::LayerNorm),
                ("relu", LayerKind::Relu),
                ("activation", LayerKind::Activation),
                ("max_pool", LayerKind::MaxPool),
                ("avg_pool", LayerKind::AvgPool),
                ("global_pool", LayerKind::GlobalPool),
                ("elementwise", LayerKind::Elementwise),
                ("copy", LayerKind::Copy),
                ("softmax", LayerKind::Softmax),
                ("dropout", LayerKind::Dropout),
                ("embedding", LayerKind::Embedding),
            ])
        });
    let parameters: Option<Vec<u64>> = match object.get("parameters") {
        None => Some(Vec::new()),
        Some(f) if matches!(f.tree(), Tree::List(_)) => f
            .items("a list of tensor sizes")
            .iter()
            .map(|f| f.count(1, "elements of a tensor"))
            .collect::<Vec<_>>()
            .into_iter()
            .collect(),
        Some(f) => f.count(1, "elements of a tensor").map(|n| vec![n]),
    };
    Some(Layer {
        forward_flops: Flops::new(flops?),
        parameters: parameters?,
        input_elements: output?,
        output_elements: output?,
        ..Layer::bare(
            name.map_or_else(|| Some(format!("layer{index}")), |n| n.map(str::to_owned))?,
            kind?,
        )
    })
}

fn profile(field: &Field<'_>, resolve: Resolve<'_>) -> Option<Workload> {
    let object = field.object("a profiled workload", &["name", "profile"])?;
    let name = object.get("name").map(|f| f.text("a name"));
    let path = object.get("profile")?;
    let mut workload = if matches!(path.tree(), Tree::List(_)) {
        profiles(&path.items("profiles of one network"), &path, resolve)?
    } else {
        one_profile(&path, resolve)?
    };
    if let Some(name) = name {
        name?.clone_into(&mut workload.name);
    }
    Some(workload)
}

fn one_profile(path: &Field<'_>, resolve: Resolve<'_>) -> Option<Workload> {
    let file = path.text("the path of a profile")?;
    resolve(file)
        .and_then(|text| Workload::from_profile(&text).map_err(|error| error.to_string()))
        .inspect_err(|why| path.problem("a profile file", Some(why.clone())))
        .ok()
}

/// Several profiles of the same step: the first is what closed forms take, a
/// simulation draws from all.
fn profiles(paths: &[Field<'_>], list: &Field<'_>, resolve: Resolve<'_>) -> Option<Workload> {
    let all: Option<Vec<Workload>> = paths.iter().map(|p| one_profile(p, resolve)).collect();
    let mut all = all?.into_iter();
    let Some(mut first) = all.next() else {
        list.problem("at least one profile", None);
        return None;
    };
    for (other, path) in all.zip(&paths[1..]) {
        let tensors = |w: &Workload| {
            w.layers
                .iter()
                .map(|l| l.parameters.clone())
                .collect::<Vec<_>>()
        };
        if tensors(&other) != tensors(&first) {
            path.problem(
                "a profile of the same layers as the first",
                Some("steps are drawn from all of them, so they must be of one network".into()),
            );
            return None;
        }
        first.further_profiles.extend(other.profile);
    }
    Some(first)
}

fn sprint(field: &Field<'_>) -> Option<Workload> {
    let object = field.object("a workload", &["name", "sprint"])?;
    let name = object.get("name").map(|f| f.text("a name"));
    let form = object.get("sprint")?;
    let keys = ["image", "channels", "convolutions", "fully_connected"];
    let inner = form.object("a network of SPRINT's form", &keys)?;
    let image = inner
        .require("image", "the side of the square input image")
        .and_then(|f| f.count_within(3, MAX_WIDTH, "pixels"));
    let channels = inner
        .get("channels")
        .map_or(Some(3), |f| f.count_within(1, MAX_WIDTH, "channels"));
    let list = inner.require("convolutions", "the convolutions, in order");
    let convolutions: Option<Vec<_>> = list.as_ref().map(|f| {
        f.items("a list of {channels, pool}")
            .iter()
            .map(|f| {
                let object = f.object("a convolution", &["channels", "pool"])?;
                let out = object
                    .require("channels", "output channels")
                    .and_then(|f| f.count_within(1, MAX_WIDTH, "channels"));
                let pool = object.get("pool").map_or(Some(false), |f| f.flag());
                Some(catalogue::SprintConvolution {
                    channels: out?,
                    pool: pool?,
                })
            })
            .collect()
    })?;
    let connected: Option<Vec<u64>> = inner.get("fully_connected").map_or(Some(Vec::new()), |f| {
        f.items("a list of layer widths")
            .iter()
            .map(|f| f.count_within(1, MAX_WIDTH, "units"))
            .collect()
    });
    let built = catalogue::sprint(channels?, image?, &convolutions?, &connected?);
    if built.is_none() {
        form.problem(
            "an image that lasts through all convolutions",
            Some("each 3×3 convolution takes 2 pixels off, each pooling halves".into()),
        );
    }
    let mut workload = built?;
    if let Some(name) = name {
        name?.clone_into(&mut workload.name);
    }
    Some(workload)
}
