//! One service over any number of listeners: TCP, TLS, Unix sockets, memory.

use super::limited::Limited;
use super::tls::{PeerCert, Tls, peer_cert};
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio_rustls::server::TlsStream;
use tower_service::Service;

/// Who called; in the request's extensions as `Arc<Peer>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Peer {
    Tcp(SocketAddr),
    Tls(SocketAddr, Option<PeerCert>),
    Unix {
        uid: u32,
        gid: u32,
        pid: Option<i32>,
    },
    Memory,
}

/// One type for all, so that hyper's connection is compiled once.
pub(crate) enum Io {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    Unix(UnixStream),
    Memory(DuplexStream),
}
macro_rules! each {
    ($self:ident, $io:ident => $e:expr) => {
        match $self.get_mut() {
            Io::Tcp($io) => {
                let $io = Pin::new($io);
                $e
            }
            Io::Tls($io) => {
                let $io = Pin::new(&mut **$io);
                $e
            }
            Io::Unix($io) => {
                let $io = Pin::new($io);
                $e
            }
            Io::Memory($io) => {
                let $io = Pin::new($io);
                $e
            }
        }
    };
}
impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self, io => io.poll_read(cx, buf))
    }
}
impl AsyncWrite for Io {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(self, io => io.poll_write(cx, buf))
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, io => io.poll_flush(cx))
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, io => io.poll_shutdown(cx))
    }
    // Both of these must be forwarded, or h2 copies every frame.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self, io => io.poll_write_vectored(cx, bufs))
    }
    fn is_write_vectored(&self) -> bool {
        match self {
            Io::Tcp(io) => io.is_write_vectored(),
            Io::Tls(io) => io.is_write_vectored(),
            Io::Unix(io) => io.is_write_vectored(),
            Io::Memory(io) => io.is_write_vectored(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Running,
    Draining,
    Over,
}

#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) handshake: Duration,
    pub(crate) max_message: usize,
    pub(crate) max_streams: u32,
    pub(crate) stream_window: u32,
    pub(crate) connection_window: u32,
    pub(crate) max_frame: u32,
}
impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(5),
            max_message: 4 << 20,
            max_streams: 1024,
            stream_window: 1 << 20,
            connection_window: 8 << 20,
            max_frame: 1 << 20,
        }
    }
}

/// Serves `svc` on whatever it is given until told to drain.
pub(crate) struct Server<S> {
    svc: S,
    http: hyper::server::conn::http2::Builder<TokioExecutor>,
    limits: Limits,
    phase: watch::Sender<Phase>,
}

impl<S, B> Server<S>
where
    S: Service<Request<tonic::body::Body>, Response = Response<B>, Error = Infallible>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    pub(crate) fn new(svc: S, limits: Limits) -> Arc<Self> {
        let mut http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        http.timer(TokioTimer::new()) // keep-alive panics without one
            .auto_date_header(false)
            .initial_stream_window_size(limits.stream_window)
            .initial_connection_window_size(limits.connection_window)
            .max_frame_size(limits.max_frame)
            .max_concurrent_streams(limits.max_streams)
            .max_header_list_size(16 << 10)
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(20));
        Arc::new(Self {
            svc,
            http,
            limits,
            phase: watch::Sender::new(Phase::Running),
        })
    }

    /// One connection, to its end.
    pub(crate) async fn connection(self: Arc<Self>, io: Io, peer: Peer) {
        let mut phase = self.phase.subscribe();
        phase.mark_changed(); // a handshake may have ended after the drain began
        let peer = Arc::new(peer);
        let max = self.limits.max_message;
        let svc = WithPeer {
            inner: self.svc.clone(),
            peer,
            max,
        };
        let mut conn = pin!(
            self.http
                .serve_connection(TokioIo::new(io), TowerToHyperService::new(svc))
        );
        loop {
            tokio::select! {
                done = &mut conn => { let _ = done; return }
                () = left(&mut phase) => match *phase.borrow() {
                    Phase::Running => {}
                    Phase::Draining => conn.as_mut().graceful_shutdown(),
                    Phase::Over => return, // drops the connection: every stream on it is reset
                }
            }
        }
    }

    pub(crate) async fn tcp(self: Arc<Self>, listener: TcpListener, tls: Option<Arc<Tls>>) {
        let mut phase = self.phase.subscribe();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = left(&mut phase) => return, // closes the listener
            };
            let Ok((tcp, addr)) = accepted else {
                // Too many files open, and the like: do not spin.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let _ = tcp.set_nodelay(true);
            let this = self.clone();
            match &tls {
                None => drop(tokio::spawn(this.connection(Io::Tcp(tcp), Peer::Tcp(addr)))),
                Some(tls) => {
                    let config = tls.current();
                    tokio::spawn(async move {
                        let accept = tokio_rustls::TlsAcceptor::from(config).accept(tcp);
                        if let Ok(Ok(s)) = tokio::time::timeout(this.limits.handshake, accept).await
                        {
                            let cert = s
                                .get_ref()
                                .1
                                .peer_certificates()
                                .and_then(|c| peer_cert(c.first()?));
                            this.connection(Io::Tls(Box::new(s)), Peer::Tls(addr, cert))
                                .await;
                        }
                    });
                }
            }
        }
    }

    pub(crate) async fn unix(self: Arc<Self>, listener: UnixListener) {
        let mut phase = self.phase.subscribe();
        loop {
            tokio::select! {
                r = listener.accept() => {
                    let Ok((s, _)) = r else { tokio::time::sleep(Duration::from_millis(50)).await; continue };
                    let Ok(c) = s.peer_cred() else { continue };
                    let peer = Peer::Unix { uid: c.uid(), gid: c.gid(), pid: c.pid() };
                    tokio::spawn(self.clone().connection(Io::Unix(s), peer));
                }
                () = left(&mut phase) => return,
            }
        }
    }

    /// Stops listening, lets calls end for at most `bound`, then cuts what is left. True if none was.
    pub(crate) async fn drain(&self, bound: Duration) -> bool {
        self.phase.send_replace(Phase::Draining);
        let clean = tokio::time::timeout(bound, self.phase.closed())
            .await
            .is_ok();
        self.phase.send_replace(Phase::Over);
        clean
    }
}

async fn left(phase: &mut watch::Receiver<Phase>) {
    if phase.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Puts the peer into the extensions and hyper's body into tonic's.
#[derive(Clone)]
struct WithPeer<S> {
    inner: S,
    peer: Arc<Peer>,
    max: usize,
}
impl<S> Service<Request<Incoming>> for WithPeer<S>
where
    S: Service<Request<tonic::body::Body>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }
    fn call(&mut self, req: Request<Incoming>) -> S::Future {
        let max = self.max;
        let mut req = req.map(|inner| tonic::body::Body::new(Limited::new(inner, max)));
        req.extensions_mut().insert(self.peer.clone());
        self.inner.call(req)
    }
}
