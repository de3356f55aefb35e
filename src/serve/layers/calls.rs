//! Counts and times every call by method and code.

use super::ending::{Ending, OnEnd, Watched, code_in};
use http::{Request, Response};
use pin_project_lite::pin_project;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry,
};
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tonic::Code;
use tower_layer::Layer;
use tower_service::Service;

struct Method {
    by_code: [IntCounter; CODES.len()],
    seconds: Histogram,
}

/// The numbers of every method.
pub(crate) struct Calls {
    methods: HashMap<&'static str, Arc<Method>>,
    other: Arc<Method>,
}

const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// Bounds of the time of a call, in seconds.
const BUCKETS: [f64; 14] = [
    5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 1.0, 5.0,
];

impl Calls {
    /// Children are looked up once, here. A path that is not known is counted
    /// under `other`, so that callers cannot grow the labels.
    pub(crate) fn new(
        registry: &Registry,
        paths: &[&'static str],
    ) -> prometheus::Result<Arc<Self>> {
        let total = IntCounterVec::new(
            Opts::new(
                "stepcast_rpc_requests_total",
                "Calls that ended, by method and code.",
            ),
            &["method", "code"],
        )?;
        let seconds = HistogramVec::new(
            HistogramOpts::new("stepcast_rpc_duration_seconds", "Time of calls.")
                .buckets(BUCKETS.to_vec()),
            &["method"],
        )?;
        registry.register(Box::new(total.clone()))?;
        registry.register(Box::new(seconds.clone()))?;
        let method = |path: &str| {
            let name = path
                .trim_start_matches('/')
                .trim_start_matches("stepcast.v1.");
            Arc::new(Method {
                by_code: CODES.map(|code| total.with_label_values(&[name, code])),
                seconds: seconds.with_label_values(&[name]),
            })
        };
        Ok(Arc::new(Self {
            methods: paths.iter().map(|path| (*path, method(path))).collect(),
            other: method("other"),
        }))
    }

    fn method(&self, path: &str) -> &Arc<Method> {
        self.methods.get(path).unwrap_or(&self.other)
    }
}
pub(crate) struct Measured {
    method: Arc<Method>,
    start: Instant,
}
impl OnEnd for Measured {
    fn end(&mut self, code: Option<Code>) {
        let code = code.unwrap_or(Code::Cancelled); // the caller went away
        self.method.by_code[code as usize].inc();
        self.method
            .seconds
            .observe(self.start.elapsed().as_secs_f64());
    }
}

#[derive(Clone)]
pub(crate) struct CallsLayer(pub(crate) Arc<Calls>);
#[derive(Clone)]
pub(crate) struct CallsService<S> {
    inner: S,
    calls: Arc<Calls>,
}
impl<S> Layer<S> for CallsLayer {
    type Service = CallsService<S>;
    fn layer(&self, inner: S) -> Self::Service {
        CallsService {
            inner,
            calls: Arc::clone(&self.0),
        }
    }
}
impl<S, Q, B> Service<Request<Q>> for CallsService<S>
where
    S: Service<Request<Q>, Response = Response<B>, Error = Infallible>,
{
    type Response = Response<Watched<B, Measured>>;
    type Error = Infallible;
    type Future = CallsFuture<S::Future>;
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }
    fn call(&mut self, req: Request<Q>) -> Self::Future {
        let method = self.calls.method(req.uri().path()).clone();
        CallsFuture {
            guard: Ending(Some(Measured {
                method,
                start: Instant::now(),
            })),
            inner: self.inner.call(req),
        }
    }
}
pin_project! { pub(crate) struct CallsFuture<F> { #[pin] inner: F, guard: Ending<Measured> } }
impl<F, B> Future for CallsFuture<F>
where
    F: Future<Output = Result<Response<B>, Infallible>>,
{
    type Output = Result<Response<Watched<B, Measured>>, Infallible>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Ok(res) = ready!(this.inner.poll(cx));
        // Trailers-only: the code is in the headers and the body is empty.
        if let Some(code) = code_in(res.headers()) {
            this.guard.end(Some(code));
        }
        let guard = Ending(this.guard.0.take());
        Poll::Ready(Ok(res.map(|inner| Watched { inner, guard })))
    }
}
