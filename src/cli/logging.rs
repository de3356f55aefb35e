//! Logs go to stderr, results never do.

use super::args::LogFormat;
use std::io::{self, IsTerminal};
use tracing_subscriber::EnvFilter;

/// Starts logging at a level; `RUST_LOG` refines it. A server's lines carry
/// the time and say at least what is going on.
pub(super) fn start(level: tracing::Level, format: LogFormat, server: bool) {
    let level = if server {
        level.max(tracing::Level::INFO)
    } else {
        level
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| {
        // What libraries say below a warning is theirs; what kube's client
        // says of a failed call, we say with the cause and the cure.
        EnvFilter::new(format!("warn,kube_client=off,stepcast={level}"))
    });
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    match (server, format) {
        (true, LogFormat::Json) => builder.json().flatten_event(true).init(),
        (true, LogFormat::Text) => builder.init(),
        (false, _) => builder.without_time().init(),
    }
}
