//! The gRPC protocol keeps its promises: documented fields, units in names.

use prost::Message;
use prost_types::field_descriptor_proto::Type;
use prost_types::{FileDescriptorProto, FileDescriptorSet};

fn files() -> Vec<FileDescriptorProto> {
    let set =
        FileDescriptorSet::decode(stepcast::protocol::FILE_DESCRIPTOR_SET).expect("descriptors");
    set.file
        .into_iter()
        .filter(|f| f.package() == "stepcast.v1")
        .collect()
}

#[test]
fn the_service_is_the_contracts() {
    let methods: Vec<String> = files()
        .iter()
        .flat_map(|f| &f.service)
        .flat_map(|s| {
            s.method
                .iter()
                .map(|m| format!("{}/{}", s.name(), m.name()))
        })
        .collect();
    for promised in [
        "Predictor/Predict",
        "Predictor/PredictBatch",
        "Predictor/PredictStream",
        "Predictor/Curve",
        "Predictor/Recommend",
        "Predictor/Tune",
        "Observations/ReportSteps",
        "Observations/ListJobs",
        "Inventory/ListNodes",
        "Inventory/WatchNodes",
        "Calibration/Get",
        "Calibration/Recalibrate",
        "Calibration/Import",
        "Calibration/Rollback",
    ] {
        assert!(methods.contains(&promised.to_owned()), "{promised}");
    }
}

#[test]
fn every_message_and_field_is_documented() {
    for file in files() {
        let info = file.source_code_info.as_ref().expect("comments");
        let documented = |path: &[i32]| {
            info.location
                .iter()
                .any(|l| l.path == path && !l.leading_comments().trim().is_empty())
        };
        for (m, message) in (0..).zip(&file.message_type) {
            assert!(documented(&[4, m]), "{}", message.name());
            for (f, field) in (0..).zip(&message.field) {
                assert!(
                    documented(&[4, m, 2, f]),
                    "{}.{}",
                    message.name(),
                    field.name()
                );
            }
        }
    }
}

/// A floating-point field is a ratio, or says its unit.
#[test]
fn units_stand_in_field_names() {
    const RATIOS: [&str; 5] = [
        "speedup",
        "target_speedup",
        "scaling_factor",
        "level",
        "min_marginal_gain",
    ];
    for file in files() {
        for message in &file.message_type {
            for field in message.field.iter().filter(|f| f.r#type() == Type::Double) {
                let name = field.name();
                let units = [
                    "_seconds",
                    "_seconds_sum",
                    "_per_second",
                    "_per_hour",
                    "_cost",
                    "_ratio",
                    "_gbps",
                    "_ghz",
                    "_flops",
                    "_mib",
                    "_ms",
                    "_samples",
                ];
                let has_unit = units.iter().any(|u| name.ends_with(u));
                assert!(
                    has_unit || RATIOS.contains(&name),
                    "{}.{name}",
                    message.name()
                );
            }
        }
    }
}
