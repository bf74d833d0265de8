//! One kept connection, reconnected when it is gone, with every byte counted at the socket.

use super::body::{BodyReader, RequestBody, broken};
use super::silence::{Silence, Turn, Watched, silence};
use super::url::ServerUrl;
use crate::ClientError;
use crate::budget::{Guard, Link};
use crate::log::Traffic;
use http::{HeaderMap, Method, Request, StatusCode, header};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes that a connection for large bodies takes beyond what it can send: at 1 Mbit/s half a second's worth.
const UNSENT_BYTES: u32 = 64 << 10;
/// Bytes of a body that HTTP gathers for such a connection.
const GATHERED_BYTES: usize = 64 << 10;
/// Bytes that the kernel takes in ahead of us on a link with a budget.
const RECEIVE_BUFFER: u32 = 64 << 10;
/// How long what was sent may stay unacknowledged by the other end's system.
const UNACKNOWLEDGED: Duration = Duration::from_secs(120);

/// Bytes on the wire so far, headers included.
#[derive(Debug, Default)]
pub struct Counter {
    sent: AtomicU64,
    received: AtomicU64,
    /// The shortest time that a connection took, in microseconds; 0: none was made.
    connecting: AtomicU64,
}

impl Counter {
    /// The shortest time that a connection took, which is a round trip; `None` before the first.
    pub fn round_trip(&self) -> Option<Duration> {
        Some(self.connecting.load(Ordering::Relaxed)).filter(|micros| *micros > 0).map(Duration::from_micros)
    }

    fn connected_after(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
        let shorter = |known: u64| (known == 0 || micros < known).then_some(micros);
        // It stays as it is where what is known is shorter.
        let _ = self.connecting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, shorter);
    }

    /// The counts now.
    pub fn count(&self) -> Traffic {
        Traffic { sent: self.sent.load(Ordering::Relaxed), received: self.received.load(Ordering::Relaxed) }
    }
}

impl Traffic {
    /// What came since an earlier count.
    pub fn since(self, earlier: Traffic) -> Traffic {
        Traffic { sent: self.sent - earlier.sent, received: self.received - earlier.received }
    }

    /// What is left of it without a part.
    pub(crate) fn without(self, part: Traffic) -> Traffic {
        Traffic { sent: self.sent.saturating_sub(part.sent), received: self.received.saturating_sub(part.received) }
    }

    /// Both ways.
    pub fn total(self) -> u64 {
        self.sent + self.received
    }
}

impl std::ops::AddAssign for Traffic {
    fn add_assign(&mut self, other: Traffic) {
        self.sent += other.sent;
        self.received += other.received;
    }
}

/// A client's side of one connection.
#[derive(Debug)]
pub struct Transport {
    server: ServerUrl,
    token: String,
    traffic: Arc<Counter>,
    sender: Option<SendRequest<Watched>>,
    turn: Arc<Turn>,
    /// How long nothing may come or go while the server has the turn.
    silence: Duration,
    /// Is it for large bodies, which can be held up at any time?
    bulk: bool,
    link: Option<Link>,
}

/// A response whose status was a success.
#[derive(Debug)]
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: BodyReader,
}

impl Transport {
    /// A transport that connects when it is first used. Without a token (empty) it sends none.
    pub fn new(server: ServerUrl, token: String) -> Transport {
        let (traffic, turn) = Default::default();
        Transport { server, token, traffic, sender: None, turn, silence: silence(), bulk: false, link: None }
    }

    /// Bears silence of the server's for so long, from the next connection on.
    pub(super) fn bear(&mut self, silence: Duration) {
        self.silence = self.silence.max(silence);
    }

    /// Another connection to the same server, counted with this one, for large bodies: little of them is under way at any
    /// time, so that they can be held up for what is more urgent.
    pub fn for_bulk(&self) -> Transport {
        let (server, token, link) = (self.server.clone(), self.token.clone(), self.link.clone());
        Transport { bulk: true, link, traffic: self.traffic.clone(), ..Transport::new(server, token) }
    }

    /// Uses another token from the next request on.
    pub(super) fn with_token(self, token: String) -> Transport {
        Transport { token, ..self }
    }

    /// Counts all bytes on a link's account, and stops at its budget.
    pub fn over(self, link: Option<Link>) -> Transport {
        Transport { link, ..self }
    }

    /// An error as the lack of budget that it comes from.
    fn explained(&self, error: ClientError) -> ClientError {
        match &self.link {
            Some(link) => link.explain(error),
            None => error,
        }
    }

    /// The server.
    pub fn server(&self) -> &ServerUrl {
        &self.server
    }

    /// Bytes on the wire.
    pub fn counter(&self) -> Arc<Counter> {
        self.traffic.clone()
    }

    /// Sends a request and waits for the head of the response.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`], [`ClientError::Connection`] if it broke on the way, [`ClientError::Problem`] for
    /// an answer that is no success.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(header::HeaderName, &str)],
        body: RequestBody,
    ) -> Result<Response, ClientError> {
        self.send_counted(method, path, headers, body).await.map_err(|error| self.explained(error))
    }

    async fn send_counted(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(header::HeaderName, &str)],
        body: RequestBody,
    ) -> Result<Response, ClientError> {
        // A kept connection may have been closed by the other side meanwhile; a body in memory can be sent again.
        let again = match &body {
            RequestBody::Bytes(bytes) if self.sender.is_some() => Some(RequestBody::Bytes(bytes.clone())),
            _ => None,
        };
        let request = self.request(&method, path, headers, body)?;
        let response = match self.connected().await?.try_send_request(request).await {
            Ok(response) => response,
            Err(mut failed) => {
                self.sender = None;
                // One that was not begun comes back whole, whatever its body.
                let request = match (failed.take_message(), again) {
                    (Some(request), _) => request,
                    (None, Some(body)) => self.request(&method, path, headers, body)?,
                    (None, None) => return Err(broken(&failed.into_error())),
                };
                self.connected().await?.send_request(request).await.map_err(|error| broken(&error))?
            }
        };
        let (head, body) = response.into_parts();
        let mut body = BodyReader::new(&head.headers, body)?;
        if head.status.is_success() {
            return Ok(Response { status: head.status, headers: head.headers, body });
        }
        let text = body.all(64 << 10).await.unwrap_or_default();
        Err(problem(head.status, &text))
    }

    fn request(
        &self,
        method: &Method,
        path: &str,
        headers: &[(header::HeaderName, &str)],
        body: RequestBody,
    ) -> Result<Request<Watched>, ClientError> {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, self.server.authority());
        if !self.token.is_empty() {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", self.token));
        }
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let wanted = match &body {
            RequestBody::Expected(.., wanted) => Some(Arc::clone(wanted)),
            _ => None,
        };
        if let Some(wanted) = wanted {
            let request = request.header(header::EXPECT, "100-continue");
            let mut request = request.body(Watched::new(body, &self.turn)).map_err(malformed)?;
            hyper::ext::on_informational(&mut request, move |_| {
                wanted.send_replace(true);
            });
            return Ok(request);
        }
        request.body(Watched::new(body, &self.turn)).map_err(malformed)
    }

    async fn connected(&mut self) -> Result<&mut SendRequest<Watched>, ClientError> {
        let usable = match &mut self.sender {
            Some(sender) => sender.ready().await.is_ok(),
            None => false,
        };
        if !usable {
            self.sender = Some(self.connect().await?);
        }
        self.sender.as_mut().ok_or(ClientError::Connection { detail: "not connected".to_owned() })
    }

    async fn connect(&self) -> Result<SendRequest<Watched>, ClientError> {
        let unreachable = |detail: String| ClientError::Unreachable { server: self.server.to_string(), detail };
        let guard = self.link.as_ref().map(Link::guard);
        // With nothing left not even a connection is made.
        if let Some(guard) = &guard {
            guard.allow(1).map_err(|error| unreachable(error.to_string()))?;
        }
        let begun = Instant::now();
        let stream = tokio::time::timeout(CONNECT_TIMEOUT, open(&self.server, guard.is_some()))
            .await
            .map_err(|_| unreachable(format!("no answer within {} s", CONNECT_TIMEOUT.as_secs())))?
            .map_err(|error| unreachable(error.to_string()))?;
        self.traffic.connected_after(begun.elapsed());
        stream.set_nodelay(true).map_err(|error| unreachable(error.to_string()))?;
        opship_sys::notice_loss(stream.as_fd(), self.silence, UNACKNOWLEDGED)
            .map_err(|error| unreachable(error.to_string()))?;
        let mut builder = Builder::new();
        if self.bulk {
            opship_sys::limit_unsent(stream.as_fd(), UNSENT_BYTES).map_err(|error| unreachable(error.to_string()))?;
            builder.max_buf_size(GATHERED_BYTES);
        }
        let silence = Silence::new(&self.turn, self.silence);
        let io = TokioIo::new(Counted { stream, traffic: self.traffic.clone(), guard, silence });
        let (sender, connection) = builder.handshake(io).await.map_err(|error| unreachable(error.to_string()))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection ended");
            }
        });
        Ok(sender)
    }
}

fn malformed(error: http::Error) -> ClientError {
    ClientError::Protocol { detail: error.to_string() }
}

/// Connects. `counted`: the kernel takes in little more than is read, so that what comes after a budget is spent is little.
async fn open(server: &ServerUrl, counted: bool) -> io::Result<TcpStream> {
    if !counted {
        return TcpStream::connect(server.authority()).await;
    }
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in tokio::net::lookup_host(server.authority()).await? {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
        match socket.connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Reads problem details (RFC 9457).
fn problem(status: StatusCode, body: &[u8]) -> ClientError {
    let json: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |key: &str| json.get(key).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
    let kind = text("type").rsplit(':').next().unwrap_or_default().to_owned();
    let detail = match (text("detail"), text("title")) {
        (detail, _) if !detail.is_empty() => detail,
        (_, title) if !title.is_empty() => title,
        _ => format!("the server answered {status}"),
    };
    ClientError::Problem { status: status.as_u16(), kind, detail }
}

struct Counted {
    stream: TcpStream,
    traffic: Arc<Counter>,
    guard: Option<Arc<Guard>>,
    silence: Silence,
}

impl Counted {
    /// Lets `through` move as many of `wanted` bytes as a budget has left; it says how many went, and they are counted.
    fn pass<T>(
        guard: Option<&Guard>,
        counter: &AtomicU64,
        wanted: usize,
        through: impl FnOnce(usize) -> (T, usize),
    ) -> io::Result<T> {
        let counted = |allowed| {
            let (result, bytes) = through(allowed);
            counter.fetch_add(bytes as u64, Ordering::Relaxed);
            (result, bytes)
        };
        match guard {
            Some(guard) if wanted > 0 => guard.pass(wanted, counted),
            _ => Ok(counted(wanted).0),
        }
    }
}

impl AsyncRead for Counted {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Counted { stream, traffic, guard, silence } = self.get_mut();
        let read = Counted::pass(guard.as_deref(), &traffic.received, buffer.remaining(), |allowed| {
            let mut part = ReadBuf::new(buffer.initialize_unfilled_to(allowed));
            let result = Pin::new(&mut *stream).poll_read(cx, &mut part);
            let count = part.filled().len();
            buffer.advance(count);
            (result, count)
        })?;
        if read.is_pending() {
            return silence.poll(cx).map(Err);
        }
        silence.came();
        read
    }
}

impl AsyncWrite for Counted {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Counted { stream, traffic, guard, silence } = self.get_mut();
        Counted::pass(guard.as_deref(), &traffic.sent, bytes.len(), |allowed| {
            let result = Pin::new(&mut *stream).poll_write(cx, &bytes[..allowed]);
            let count = if let Poll::Ready(Ok(count)) = &result { *count } else { 0 };
            if count > 0 {
                silence.went(count as u64);
            }
            (result, count)
        })?
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
