//! Logs go to stderr, results never do.

use std::io::{self, IsTerminal};

/// Starts logging at a level; `RUST_LOG` refines it.
pub(super) fn start(level: tracing::Level) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(level.to_string()));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .without_time()
        .init();
}
