//! Messages over the limit are refused before they are buffered, with an
//! error of our own.

use super::status::too_large;
use bytes::{Buf, Bytes};
use http_body::Frame;
use hyper::body::Incoming;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tonic::Status;

/// Watches the 5-byte prefixes go by and fails with our own status; tonic's answer would be
/// `OUT_OF_RANGE`. It shares the one box that tonic's `Body` makes in any case.
pub(super) struct Limited {
    inner: Incoming,
    max: usize,
    skip: usize, // bytes of the message in hand still to come
    head: usize, // bytes of the prefix seen
    len: [u8; 4],
}
impl Limited {
    pub(super) const fn new(inner: Incoming, max: usize) -> Self {
        Self {
            inner,
            max,
            skip: 0,
            head: 0,
            len: [0; 4],
        }
    }

    fn scan(&mut self, mut data: &[u8]) -> Result<(), Status> {
        while !data.is_empty() {
            if self.skip > 0 {
                let n = self.skip.min(data.len());
                self.skip -= n;
                data.advance(n);
                continue;
            }
            if self.head > 0 {
                self.len[self.head - 1] = data[0];
            }
            self.head += 1;
            data.advance(1);
            if self.head == 5 {
                let len = u32::from_be_bytes(self.len) as usize;
                if len > self.max {
                    return Err(too_large(len, self.max));
                }
                (self.head, self.skip) = (0, len);
            }
        }
        Ok(())
    }
}
impl http_body::Body for Limited {
    type Data = Bytes;
    type Error = Status;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        Poll::Ready(match ready!(Pin::new(&mut this.inner).poll_frame(cx)) {
            None => None,
            Some(Err(e)) => Some(Err(Status::from_error(e.into()))),
            Some(Ok(f)) => match f.data_ref().map_or(Ok(()), |d| this.scan(d)) {
                Ok(()) => Some(Ok(f)),
                Err(e) => Some(Err(e)),
            },
        })
    }
    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
    fn size_hint(&self) -> http_body::SizeHint {
        self.inner.size_hint()
    }
}
