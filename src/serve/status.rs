//! Errors as the protocol says them: every bad field at once, a reason that
//! scripts can tell apart, a hint when to try again.

use crate::input::Problems;
use http::Response;
use std::collections::HashMap;
use std::time::Duration;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

/// Whose reasons they are.
const DOMAIN: &str = "stepcast.dev";

/// A status with a reason.
pub(crate) fn with_reason(code: Code, reason: &str, message: impl Into<String>) -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, DOMAIN, HashMap::<String, String>::new());
    Status::with_error_details(code, message, details)
}

/// A message is over the limit.
pub(crate) fn too_large(length: usize, limit: usize) -> Status {
    with_reason(
        Code::ResourceExhausted,
        "MESSAGE_TOO_LARGE",
        format!(
            "the message has {length} bytes, the limit is {limit}; `--max-message-mib` raises it"
        ),
    )
}

/// A request asks for more than one call may.
pub(crate) fn over_limit(
    reason: &str,
    what: &str,
    found: usize,
    limit: usize,
    flag: &str,
) -> Status {
    with_reason(
        Code::ResourceExhausted,
        reason,
        format!("{found} {what}, the limit is {limit}; `{flag}` raises it"),
    )
}

/// More calls at once than the server takes.
pub(crate) fn overloaded(retry: Duration) -> Status {
    let mut details = ErrorDetails::with_retry_info(Some(retry));
    details.set_error_info("OVERLOADED", DOMAIN, HashMap::<String, String>::new());
    Status::with_error_details(
        Code::ResourceExhausted,
        "more calls at once than the server takes; try again after the delay in RetryInfo",
        details,
    )
}

/// The caller's time is up.
pub(crate) fn too_late() -> Status {
    Status::deadline_exceeded("the deadline passed before there was an answer")
}

/// The server is on its way out.
pub(crate) fn leaving() -> Status {
    Status::unavailable("the server is shutting down; ask another, or again")
}

/// Fields that one answer names, and characters on each: clients take no more
/// than 8 KiB of a status.
const MOST_FIELDS: usize = 12;
const MOST_WORDS: usize = 160;

fn shortened(mut text: String) -> String {
    if text.chars().count() > MOST_WORDS {
        text = text.chars().take(MOST_WORDS).collect();
        text.push('…');
    }
    text
}

/// Fields that are wrong, all of them; of very many the first.
pub(crate) fn bad_fields(violations: Vec<(String, String)>) -> Status {
    let count = violations.len();
    let mut violations: Vec<(String, String)> = violations
        .into_iter()
        .take(MOST_FIELDS)
        .map(|(field, why)| (shortened(field), shortened(why)))
        .collect();
    let message = match violations.as_slice() {
        [(field, why)] => format!("{field}: {why}"),
        many => {
            let fields: Vec<&str> = many.iter().map(|v| v.0.as_str()).collect();
            let more = if count > many.len() { ", …" } else { "" };
            format!("{count} fields are wrong: {}{more}", fields.join(", "))
        }
    };
    if count > violations.len() {
        let rest = count - violations.len();
        violations.push(("…".into(), format!("and {rest} more like these")));
    }
    let violations: Vec<FieldViolation> = violations
        .into_iter()
        .map(|(field, why)| FieldViolation::new(field, why))
        .collect();
    let mut details = ErrorDetails::with_bad_request(violations);
    details.set_error_info("BAD_FIELDS", DOMAIN, HashMap::<String, String>::new());
    Status::with_error_details(Code::InvalidArgument, message, details)
}

/// Problems of an input as fields under a prefix.
pub(crate) fn violations(prefix: &str, problems: &Problems) -> Vec<(String, String)> {
    problems
        .iter()
        .map(|problem| {
            let field = match (prefix.is_empty(), problem.path.is_empty()) {
                (_, true) => prefix.to_owned(),
                (true, false) => problem.path.clone(),
                (false, false) => format!("{prefix}.{}", problem.path),
            };
            (field, problem.what())
        })
        .collect()
}

/// An answer of a status alone: the code is in the headers, and there is no
/// body.
pub(crate) fn refuse<B: Default>(status: &Status) -> Response<B> {
    status.clone().into_http()
}
