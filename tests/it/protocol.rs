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
    assert!(
        methods.contains(&"Predictor/Predict".to_owned()),
        "{methods:?}"
    );
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
    const RATIOS: [&str; 3] = ["speedup", "scaling_factor", "level"];
    for file in files() {
        for message in &file.message_type {
            for field in message.field.iter().filter(|f| f.r#type() == Type::Double) {
                let name = field.name();
                let has_unit = ["_seconds", "_per_second", "_bytes", "_gbps"]
                    .iter()
                    .any(|u| name.ends_with(u));
                assert!(
                    has_unit || RATIOS.contains(&name),
                    "{}.{name}",
                    message.name()
                );
            }
        }
    }
}
