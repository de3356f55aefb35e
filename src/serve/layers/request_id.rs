//! A name for every call: the caller's own, or one of ours.

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use pin_project_lite::pin_project;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use tower_layer::Layer;
use tower_service::Service;

#[derive(Clone, Debug)]
/// The call's name; in its extensions.
pub(crate) struct RequestId(pub(crate) HeaderValue);
static ID: HeaderName = HeaderName::from_static("x-request-id");

#[derive(Clone)]
pub(crate) struct RequestIdLayer {
    seed: u64,
    next: Arc<AtomicU64>,
}
impl Default for RequestIdLayer {
    fn default() -> Self {
        use std::hash::BuildHasher;
        Self {
            seed: std::hash::RandomState::new().hash_one(std::process::id()),
            next: Arc::default(),
        }
    }
}
#[derive(Clone)]
pub(crate) struct RequestIdService<S> {
    inner: S,
    ids: RequestIdLayer,
}
impl<S> Layer<S> for RequestIdLayer {
    type Service = RequestIdService<S>;
    fn layer(&self, inner: S) -> Self::Service {
        RequestIdService {
            inner,
            ids: self.clone(),
        }
    }
}
impl RequestIdLayer {
    fn of(&self, headers: &HeaderMap) -> HeaderValue {
        match headers.get(&ID) {
            Some(v)
                if !v.is_empty()
                    && v.len() <= 128
                    && v.as_bytes().iter().all(u8::is_ascii_graphic) =>
            {
                v.clone()
            }
            _ => {
                let n = self.next.fetch_add(1, Ordering::Relaxed);
                HeaderValue::try_from(format!("{:08x}-{n:x}", self.seed as u32))
                    .unwrap_or(HeaderValue::from_static("none"))
            }
        }
    }
}
impl<S, Q, B> Service<Request<Q>> for RequestIdService<S>
where
    S: Service<Request<Q>, Response = Response<B>, Error = Infallible>,
{
    type Response = Response<B>;
    type Error = Infallible;
    type Future = RequestIdFuture<S::Future>;
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }
    fn call(&mut self, mut req: Request<Q>) -> Self::Future {
        let id = self.ids.of(req.headers());
        // Only where it is written down is it worth keeping.
        let path = tracing::enabled!(tracing::Level::DEBUG).then(|| req.uri().path().to_owned());
        req.extensions_mut().insert(RequestId(id.clone()));
        RequestIdFuture {
            inner: self.inner.call(req),
            id: Some(id),
            path,
        }
    }
}
pin_project! { pub(crate) struct RequestIdFuture<F> { #[pin] inner: F, id: Option<HeaderValue>, path: Option<String> } }
impl<F, B> Future for RequestIdFuture<F>
where
    F: Future<Output = Result<Response<B>, Infallible>>,
{
    type Output = F::Output;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Ok(mut res) = ready!(this.inner.poll(cx));
        if let Some(id) = this.id.take() {
            if let Some(path) = this.path.take() {
                let code = super::ending::code_in(res.headers());
                let request_id = id.to_str().unwrap_or_default();
                tracing::debug!(request_id, path, code = ?code.unwrap_or(tonic::Code::Ok), "answered");
            }
            res.headers_mut().insert(&ID, id);
        }
        Poll::Ready(Ok(res))
    }
}
