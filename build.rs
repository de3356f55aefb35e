//! Compiles the protocol without a system `protoc`, so that a mistake in a
//! `.proto` stops the build.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

const PROTOS: [&str; 6] = [
    "stepcast/v1/calibration.proto",
    "stepcast/v1/inventory.proto",
    "stepcast/v1/job.proto",
    "stepcast/v1/node.proto",
    "stepcast/v1/observations.proto",
    "stepcast/v1/predictor.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler
        .include_source_info(true)
        .include_imports(true)
        .open_files(PROTOS)?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let descriptors = compiler.encode_file_descriptor_set();
    fs::write(out.join("stepcast.v1.bin"), descriptors)?;
    tonic_prost_build::configure()
        .build_transport(false)
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
