//! An error with what is behind it: "connection refused" stands at the end.

use std::error::Error;

/// All of it in a line, nothing said twice.
pub(crate) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut behind = error.source();
    while let Some(cause) = behind {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        behind = cause.source();
    }
    text
}
