//! A panic is one failed call, not a dead server.

use super::super::status::refuse;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use pin_project_lite::pin_project;
use std::any::Any;
use std::convert::Infallible;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use tonic::Status;
use tower_layer::Layer;
use tower_service::Service;

#[derive(Clone)]
pub(crate) struct CatchPanicLayer;
#[derive(Clone)]
pub(crate) struct CatchPanicService<S> {
    inner: S,
}
impl<S> Layer<S> for CatchPanicLayer {
    type Service = CatchPanicService<S>;
    fn layer(&self, inner: S) -> Self::Service {
        CatchPanicService { inner }
    }
}
fn panicked(panic: &(dyn Any + Send)) -> Status {
    let what = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    tracing::error!(what, "a handler panicked");
    Status::internal("a bug in the server ended this call")
}
impl<S, Q, B: Default> Service<Request<Q>> for CatchPanicService<S>
where
    S: Service<Request<Q>, Response = Response<B>, Error = Infallible>,
{
    type Response = Response<CatchPanicBody<B>>;
    type Error = Infallible;
    type Future = CatchPanicFuture<S::Future>;
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }
    fn call(&mut self, req: Request<Q>) -> Self::Future {
        CatchPanicFuture {
            inner: catch_unwind(AssertUnwindSafe(|| self.inner.call(req))).ok(),
        }
    }
}
pin_project! { pub(crate) struct CatchPanicFuture<F> { #[pin] inner: Option<F> } }
impl<F, B: Default> Future for CatchPanicFuture<F>
where
    F: Future<Output = Result<Response<B>, Infallible>>,
{
    type Output = Result<Response<CatchPanicBody<B>>, Infallible>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let polled = match this.inner.as_mut().as_pin_mut() {
            Some(f) => catch_unwind(AssertUnwindSafe(|| f.poll(cx))),
            None => Err(Box::new(()) as _),
        };
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(Ok(res))) => {
                Poll::Ready(Ok(res.map(|inner| CatchPanicBody { inner: Some(inner) })))
            }
            Err(e) => {
                this.inner.set(None);
                Poll::Ready(Ok(refuse(&panicked(&*e))))
            }
        }
    }
}
pin_project! {
    /// A stream that panics ends with INTERNAL in its trailers.
    pub(crate) struct CatchPanicBody<B> { #[pin] inner: Option<B> }
}
impl<B: Default> Default for CatchPanicBody<B> {
    fn default() -> Self {
        Self {
            inner: Some(B::default()),
        }
    }
}
impl<B: HttpBody<Data = Bytes>> HttpBody for CatchPanicBody<B> {
    type Data = Bytes;
    type Error = B::Error;
    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut this = self.project();
        let Some(inner) = this.inner.as_mut().as_pin_mut() else {
            return Poll::Ready(None);
        };
        match catch_unwind(AssertUnwindSafe(|| inner.poll_frame(cx))) {
            Ok(p) => p,
            Err(e) => {
                this.inner.set(None);
                let mut t = HeaderMap::new();
                let _ = panicked(&*e).add_header(&mut t);
                Poll::Ready(Some(Ok(Frame::trailers(t))))
            }
        }
    }
    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(HttpBody::is_end_stream)
    }
    fn size_hint(&self) -> SizeHint {
        self.inner
            .as_ref()
            .map_or(SizeHint::with_exact(0), HttpBody::size_hint)
    }
}
