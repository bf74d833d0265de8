//! The accept loop. It is our own, over a connection trait, so that a connection can be paced.

use crate::state::State;
use axum::Router;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// How long a connection may take for a request's header; and so how long it may be idle.
const HEADER_TIMEOUT: Duration = Duration::from_secs(75);
/// Most header lines of a request.
const MAX_HEADERS: usize = 64;
/// Most bytes of a request's header.
const MAX_HEADER_BYTES: usize = 32 << 10;
/// After the listening socket failed, for example for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long requests may go on once the server stops.
const FINISH: Duration = Duration::from_millis(3500);
/// How long they have to say so once their replays are cancelled.
const GIVE_UP: Duration = Duration::from_millis(1000);

/// What requests travel on.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// The other end.
    fn peer(&self) -> SocketAddr;
}

/// Who is at the other end of a request's connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// A plain TCP connection.
pub(crate) struct Tcp {
    stream: TcpStream,
    peer: SocketAddr,
}

impl Connection for Tcp {
    fn peer(&self) -> SocketAddr {
        self.peer
    }
}

impl AsyncRead for Tcp {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::pin::Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Tcp {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<io::Result<usize>> {
        std::pin::Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> std::task::Poll<io::Result<usize>> {
        std::pin::Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::pin::Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::pin::Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Serves until `shutdown`, then lets requests finish for a while; replays that do not end by then are cancelled.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    state: &Arc<State>,
    connections: usize,
    shutdown: impl Future<Output = ()>,
) {
    let (stop, stopping) = watch::channel(false);
    let permits = Arc::new(Semaphore::new(connections.max(1)));
    let mut open = JoinSet::new();
    tokio::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = accept(&listener, &permits) => accepted,
            Some(_) = open.join_next() => continue,
        };
        match accepted {
            Some((connection, permit)) => {
                let (router, stopping) = (router.clone(), stopping.clone());
                open.spawn(async move {
                    handle(connection, router, stopping).await;
                    drop(permit);
                });
            }
            None => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
    drop(listener);
    stop.send_replace(true);
    state.stopping.cancel();
    if tokio::time::timeout(FINISH, drain(&mut open)).await.is_err() {
        state.cancel.store(true, Ordering::Relaxed);
        let _ = tokio::time::timeout(GIVE_UP, drain(&mut open)).await;
    }
    state.cancel.store(true, Ordering::Relaxed);
    open.shutdown().await;
}

async fn drain(open: &mut JoinSet<()>) {
    while open.join_next().await.is_some() {}
}

/// The next connection, once there is room for one.
async fn accept(listener: &TcpListener, permits: &Arc<Semaphore>) -> Option<(Tcp, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%peer, %error, "no TCP_NODELAY");
            }
            Some((Tcp { stream, peer }, permit))
        }
        Err(error) => {
            tracing::warn!(%error, "cannot accept a connection");
            None
        }
    }
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // The sender lives as long as the accept loop; if it goes, the server stops too.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

async fn handle(connection: impl Connection, router: Router, mut stopping: watch::Receiver<bool>) {
    let peer = connection.peer();
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEADER_BYTES)
        // Nothing here is cached by time, and no client reads it.
        .auto_date_header(false)
        .half_close(false)
        .keep_alive(true);
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer.ip()));
        router.call(request)
    });
    let serving = builder.serve_connection(TokioIo::new(connection), service);
    tokio::pin!(serving);
    let served = tokio::select! {
        served = serving.as_mut() => served,
        () = stopped(&mut stopping) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%peer, %error, "connection ended");
    }
}
