//! The `stepcast` command.

use std::process::ExitCode;

/// Many small messages: half the time of the system's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    stepcast::cli::main()
}
