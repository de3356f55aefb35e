//! Overload is refused at once, not queued.

use super::super::status::{overloaded, refuse};
use super::ending::{Ending, OnEnd, Watched};
use http::{Request, Response};
use pin_project_lite::pin_project;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Code;
use tower_layer::Layer;
use tower_service::Service;

#[derive(Clone)]
pub(crate) struct ShedLayer {
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) retry: Duration,
}
#[derive(Clone)]
pub(crate) struct ShedService<S> {
    inner: S,
    shed: ShedLayer,
}
impl<S> Layer<S> for ShedLayer {
    type Service = ShedService<S>;
    fn layer(&self, inner: S) -> Self::Service {
        ShedService {
            inner,
            shed: self.clone(),
        }
    }
}
/// Held until the answer's *body* is done, so that a stream counts for as long as it runs.
pub(crate) struct Held(Option<OwnedSemaphorePermit>);
impl OnEnd for Held {
    fn end(&mut self, _: Option<Code>) {
        self.0 = None;
    }
}
impl<S, Q, B: Default> Service<Request<Q>> for ShedService<S>
where
    S: Service<Request<Q>, Response = Response<B>, Error = Infallible>,
{
    type Response = Response<Watched<B, Held>>;
    type Error = Infallible;
    type Future = ShedFuture<S::Future>;
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }
    fn call(&mut self, req: Request<Q>) -> Self::Future {
        // Probes are never shed; watches have a limit of their own.
        let path = req.uri().path();
        if path.starts_with("/grpc.health.v1.") || path == "/stepcast.v1.Inventory/WatchNodes" {
            return ShedFuture {
                inner: Some(self.inner.call(req)),
                held: None,
                retry: Duration::ZERO,
            };
        }
        match self.shed.permits.clone().try_acquire_owned() {
            Ok(p) => ShedFuture {
                inner: Some(self.inner.call(req)),
                held: Some(p),
                retry: Duration::ZERO,
            },
            Err(_) => ShedFuture {
                inner: None,
                held: None,
                retry: self.shed.retry,
            },
        }
    }
}
pin_project! { pub(crate) struct ShedFuture<F> { #[pin] inner: Option<F>, held: Option<OwnedSemaphorePermit>, retry: Duration } }
impl<F, B: Default> Future for ShedFuture<F>
where
    F: Future<Output = Result<Response<B>, Infallible>>,
{
    type Output = Result<Response<Watched<B, Held>>, Infallible>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Some(inner) = this.inner.as_pin_mut() else {
            return Poll::Ready(Ok(refuse(&overloaded(*this.retry))));
        };
        let Ok(res) = ready!(inner.poll(cx));
        let guard = Ending(this.held.take().map(|p| Held(Some(p))));
        Poll::Ready(Ok(res.map(|inner| Watched { inner, guard })))
    }
}
