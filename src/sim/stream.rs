//! Transfers that wait for one way between a worker and a server.
//!
//! With HTTP/2's flow control a stream is served twice: first for at most a
//! window, then, after the others have had their turn, to its end (Li 2020,
//! 3.2.2). Without it every transfer goes whole.

use std::collections::VecDeque;

/// A transfer, or what is left of it.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    op: u32,
    bytes: f64,
    seen: bool,
}

/// The queue of one way.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    waiting: VecDeque<Waiting>,
    head: Option<Waiting>,
}

impl Stream {
    /// Queues a transfer.
    #[inline]
    pub(super) fn add(&mut self, op: u32, bytes: f64) {
        self.waiting.push_back(Waiting {
            op,
            bytes,
            seen: false,
        });
    }

    /// Puts the next chunk at the head: its bytes.
    #[inline]
    pub(super) fn next(&mut self, window: f64) -> Option<f64> {
        let mut chunk = self.waiting.pop_front()?;
        if !chunk.seen && chunk.bytes > window {
            chunk.seen = true;
            self.waiting.push_back(Waiting {
                bytes: chunk.bytes - window,
                ..chunk
            });
            // More is to come: the operation is not over with this chunk.
            chunk.bytes = window;
            self.head = Some(Waiting {
                op: PARTIAL,
                ..chunk
            });
            return Some(window);
        }
        self.head = Some(chunk);
        Some(chunk.bytes)
    }

    /// The head is through: its bytes, and the operation if that ends it.
    #[inline]
    pub(super) fn through(&mut self) -> (f64, Option<u32>) {
        match self.head.take() {
            Some(chunk) => (chunk.bytes, (chunk.op != PARTIAL).then_some(chunk.op)),
            None => (0.0, None),
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.head = None;
    }
}

/// Stands for an operation that is not over.
const PARTIAL: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's Figure 12: a window of three.
    #[test]
    fn a_stream_is_served_once_up_to_the_window_then_to_its_end() {
        let mut stream = Stream::default();
        for (op, bytes) in [(0, 2.0), (1, 8.0), (2, 3.0), (3, 5.0)] {
            stream.add(op, bytes);
        }
        let mut served = Vec::new();
        while let Some(bytes) = stream.next(3.0) {
            served.push((bytes, stream.through().1));
        }
        let expected = [
            (2.0, Some(0)),
            (3.0, None),
            (3.0, Some(2)),
            (3.0, None),
            (5.0, Some(1)),
            (2.0, Some(3)),
        ];
        assert_eq!(served, expected);
    }

    #[test]
    fn without_flow_control_transfers_go_whole() {
        let mut stream = Stream::default();
        stream.add(0, 50.0);
        stream.add(1, 1.0);
        assert_eq!(stream.next(f64::INFINITY), Some(50.0));
        assert_eq!(stream.through(), (50.0, Some(0)));
        assert_eq!(stream.next(f64::INFINITY), Some(1.0));
    }
}
