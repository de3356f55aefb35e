//! `/metrics`, `/healthz` and `/readyz` on one small port.

use super::state::State;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus::TextEncoder;
use std::sync::Arc;

/// The pages.
pub(crate) fn pages(state: Arc<State>) -> Router {
    let ready = Arc::clone(&state);
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route(
            "/readyz",
            get(move || {
                let ready = ready.is_ready();
                async move {
                    if ready {
                        (StatusCode::OK, "ok\n")
                    } else {
                        let why =
                            "the inventory has not been read in full yet, or it is draining\n";
                        (StatusCode::SERVICE_UNAVAILABLE, why)
                    }
                }
            }),
        )
        .route(
            "/metrics",
            get(move || {
                let text = TextEncoder::new().encode_to_string(&state.metrics.registry.gather());
                async move {
                    match text {
                        Ok(text) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text)
                            .into_response(),
                        Err(error) => {
                            (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
                        }
                    }
                }
            }),
        )
}
