//! A body that tells how its call ended.

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use pin_project_lite::pin_project;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tonic::Code;

/// The code in headers or trailers. An immediate error has it in the headers,
/// everything else in the trailers of the body.
pub(crate) fn code_in(headers: &HeaderMap) -> Option<Code> {
    headers
        .get("grpc-status")
        .map(|value| Code::from_bytes(value.as_bytes()))
}

/// Told once how a call ended; `None` when it was dropped before it had.
pub(crate) trait OnEnd: Send + 'static {
    fn end(&mut self, code: Option<Code>);
}

pin_project! {
    /// Ends its guard on trailers, error or drop.
    pub(crate) struct Watched<B, G: OnEnd> {
        #[pin]
        pub(crate) inner: B,
        pub(crate) guard: Ending<G>,
    }
}
pub(crate) struct Ending<G: OnEnd>(pub(crate) Option<G>);
impl<G: OnEnd> Ending<G> {
    pub(crate) fn end(&mut self, code: Option<Code>) {
        if let Some(mut g) = self.0.take() {
            g.end(code);
        }
    }
}
impl<G: OnEnd> Drop for Ending<G> {
    fn drop(&mut self) {
        self.end(None);
    }
}
impl<B: Default, G: OnEnd> Default for Watched<B, G> {
    fn default() -> Self {
        Self {
            inner: B::default(),
            guard: Ending(None),
        }
    }
}
impl<B: HttpBody<Data = Bytes>, G: OnEnd> HttpBody for Watched<B, G> {
    type Data = Bytes;
    type Error = B::Error;
    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let frame = ready!(this.inner.poll_frame(cx));
        match &frame {
            Some(Ok(f)) => {
                if let Some(t) = f.trailers_ref() {
                    this.guard.end(Some(code_in(t).unwrap_or(Code::Unknown)));
                }
            }
            // Broken, or ended with no trailers.
            Some(Err(_)) | None => this.guard.end(Some(Code::Unknown)),
        }
        Poll::Ready(frame)
    }
    // Must be false while the trailers are to come, which the inner body sees to.
    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
