//! The `stepcast` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    stepcast::cli::main()
}
