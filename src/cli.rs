//! The command line: reads files, asks the core, prints.

mod args;
mod calibrate;
mod catalogues;
mod check;
mod compare;
mod curve;
mod evaluate;
mod example;
mod files;
mod logging;
mod nodes;
mod output;
mod predict;
mod recommend;
mod reproduce;
mod serve;
mod shell;
mod simulate;
mod tune;
mod view;

use args::{Arguments, Command};
use clap::Parser;
use std::process::ExitCode;

/// A check does not hold.
const FALLS_SHORT: u8 = 1;

/// Bad input, whatever kind.
const BAD_INPUT: u8 = 2;

/// The answer could not be written (`EX_IOERR`).
const NOT_WRITTEN: u8 = 74;

/// Runs the command that was typed.
pub fn main() -> ExitCode {
    let Arguments { command, log_level } = Arguments::parse();
    let format = match &command {
        Command::Serve(args) => args.log_format,
        _ => args::LogFormat::Text,
    };
    logging::start(log_level, format, matches!(command, Command::Serve(_)));
    let done = match command {
        Command::Predict(args) => predict::run(args),
        Command::Curve(args) => curve::run(args),
        Command::Recommend(args) => recommend::run(args),
        Command::Tune(args) => tune::run(args),
        Command::Simulate(args) => simulate::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Check(args) => match check::run(&args) {
            Ok(true) => Ok(()),
            Ok(false) => return ExitCode::from(FALLS_SHORT),
            Err(error) => Err(error),
        },
        Command::Calibrate(args) => calibrate::run(args),
        Command::Evaluate(args) => evaluate::run(&args),
        Command::Reproduce(args) => reproduce::run(args),
        Command::Workloads(args) => catalogues::workloads(&args),
        Command::Devices(args) => catalogues::devices(&args),
        Command::Nodes(args) => nodes::run(&args),
        Command::Serve(args) => serve::run(*args),
        Command::Completions { shell } => shell::completions(shell),
        Command::Man => shell::man(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(&error);
            let not_written = error.downcast_ref::<std::io::Error>().is_some();
            ExitCode::from(if not_written { NOT_WRITTEN } else { BAD_INPUT })
        }
    }
}
