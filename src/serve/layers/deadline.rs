//! Deadlines: the caller's own, within the server's longest.

use super::super::status::refuse;
use http::{HeaderMap, Request, Response};
use pin_project_lite::pin_project;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tonic::Status;
use tower_layer::Layer;
use tower_service::Service;

/// When the caller stops waiting; in the extensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(pub(crate) Instant);

pub(crate) fn grpc_timeout(headers: &HeaderMap) -> Option<Duration> {
    let v = headers.get("grpc-timeout")?.as_bytes();
    let (unit, digits) = v.split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let n: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(match unit {
        b'H' => Duration::from_secs(n * 3600),
        b'M' => Duration::from_secs(n * 60),
        b'S' => Duration::from_secs(n),
        b'm' => Duration::from_millis(n),
        b'u' => Duration::from_micros(n),
        b'n' => Duration::from_nanos(n),
        _ => return None,
    })
}

/// Methods that stream.
const STREAMS: [&str; 5] = [
    "/stepcast.v1.Predictor/PredictStream",
    "/stepcast.v1.Observations/ReportSteps",
    "/stepcast.v1.Inventory/WatchNodes",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
];

#[derive(Clone)]
pub(crate) struct DeadlineLayer {
    pub(crate) longest: Option<Duration>,
}
#[derive(Clone)]
pub(crate) struct DeadlineService<S> {
    inner: S,
    longest: Option<Duration>,
}
impl<S> Layer<S> for DeadlineLayer {
    type Service = DeadlineService<S>;
    fn layer(&self, inner: S) -> Self::Service {
        DeadlineService {
            inner,
            longest: self.longest,
        }
    }
}
impl<S, Q, B: Default> Service<Request<Q>> for DeadlineService<S>
where
    S: Service<Request<Q>, Response = Response<B>, Error = Infallible>,
{
    type Response = Response<B>;
    type Error = Infallible;
    type Future = DeadlineFuture<S::Future>;
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }
    fn call(&mut self, mut req: Request<Q>) -> Self::Future {
        let asked = grpc_timeout(req.headers());
        // A stream goes on for as long as its caller wants.
        let longest = self
            .longest
            .filter(|_| !STREAMS.contains(&req.uri().path()));
        let at = match (asked, longest) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
        .and_then(|d| Instant::now().checked_add(d));
        if let Some(at) = at {
            req.extensions_mut().insert(Deadline(at));
        }
        DeadlineFuture {
            inner: self.inner.call(req),
            at,
            sleep: None,
        }
    }
}
pin_project! {
    /// The timer is made on the first Pending: a handler that answers at once never touches the wheel.
    pub(crate) struct DeadlineFuture<F> { #[pin] inner: F, at: Option<Instant>, #[pin] sleep: Option<tokio::time::Sleep> }
}
impl<F, B: Default> Future for DeadlineFuture<F>
where
    F: Future<Output = Result<Response<B>, Infallible>>,
{
    type Output = F::Output;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Poll::Ready(r) = this.inner.poll(cx) {
            return Poll::Ready(r);
        }
        let Some(at) = *this.at else {
            return Poll::Pending;
        };
        if this.sleep.is_none() {
            this.sleep.set(Some(tokio::time::sleep_until(at.into())));
        }
        let Some(sleep) = this.sleep.as_pin_mut() else {
            return Poll::Pending;
        };
        ready!(sleep.poll(cx));
        Poll::Ready(Ok(refuse(&Status::deadline_exceeded(
            "the deadline has passed",
        ))))
    }
}
