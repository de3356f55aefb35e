//! The gRPC protocol's descriptors, compiled into the program: what
//! tests hold the contract against, and what reflection will serve.

/// `FileDescriptorSet` of package `stepcast.v1`, encoded.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stepcast.v1.bin"));
