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
    /// Whether the operation is over with it.
    ends: bool,
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
            ends: true,
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
            chunk.ends = false;
            self.head = Some(chunk);
            return Some(window);
        }
        self.head = Some(chunk);
        Some(chunk.bytes)
    }

    /// The head is through: its bytes, its operation, and whether that is
    /// over.
    #[inline]
    pub(super) fn through(&mut self) -> (f64, u32, bool) {
        match self.head.take() {
            Some(chunk) => (chunk.bytes, chunk.op, chunk.ends),
            None => (0.0, 0, false),
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.head = None;
    }
}

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
            let (_, op, ends) = stream.through();
            served.push((bytes, ends.then_some(op)));
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
        assert_eq!(stream.through(), (50.0, 0, true));
        assert_eq!(stream.next(f64::INFINITY), Some(1.0));
    }
}
