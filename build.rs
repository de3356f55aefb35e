//! Compiles the protocol without a system `protoc`, so that a mistake in a
//! `.proto` stops the build.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

const PROTOS: [&str; 1] = ["proto/stepcast/v1/predictor.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    for proto in PROTOS {
        println!("cargo::rerun-if-changed={proto}");
    }
    let descriptors = protox::Compiler::new(["proto"])?
        .include_source_info(true)
        .include_imports(true)
        .open_files(PROTOS.map(|p| p.trim_start_matches("proto/")))?
        .encode_file_descriptor_set();
    let out = env::var("OUT_DIR")?;
    fs::write(Path::new(&out).join("stepcast.v1.bin"), descriptors)?;
    Ok(())
}
