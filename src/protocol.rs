//! The gRPC protocol, compiled into the program.

/// Messages and services of package `stepcast.v1`.
#[allow(
    missing_docs,
    clippy::all,
    clippy::pedantic,
    unreachable_pub,
    reason = "generated"
)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/stepcast.v1.rs"));
}

/// `FileDescriptorSet` of package `stepcast.v1`, encoded: what reflection
/// serves, and what tests hold the contract against.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stepcast.v1.bin"));
