//! A TCP relay on loopback that counts, and on request keeps, every byte between a client and a server: so traffic is
//! measured outside the programs that make it, headers included. It can also be as slow as a link, and break connections
//! at a byte.
#![forbid(unsafe_code)]

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes passed on at one time where there is a rate.
const PACED: usize = 8 << 10;
const NEVER: u64 = u64::MAX;
/// Bytes of a stream that one packet carries, and bytes of its TCP and IP headers (RFC 9293 and 791, without options).
pub const PACKET: u64 = 1460;
/// See [`PACKET`].
pub const HEADERS: u64 = 40;

/// A relay. It stops taking connections when dropped; open ones end with their ends.
#[derive(Debug)]
pub struct Tap {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    sent: AtomicU64,
    received: AtomicU64,
    stopped: AtomicBool,
    kept: Option<Mutex<Vec<u8>>>,
    /// Bytes a second, each way; and when each way is free again.
    rate: Option<u64>,
    free: [Mutex<Instant>; 2],
    /// The count of both ways at which the connection that gets there is broken.
    cut_at: AtomicU64,
    /// The count of both ways at which the connection that gets there passes nothing on any more.
    silent_at: AtomicU64,
    /// What every byte takes longer, each way.
    delay: Duration,
    /// Where the next connections go, if no longer where they went first.
    moved: Mutex<Option<SocketAddr>>,
    /// Both ends of open connections, for cutting them; those that ended are dropped with the next cut.
    open: Mutex<Vec<TcpStream>>,
    /// What happened, if that is kept.
    events: Option<Mutex<Vec<Event>>>,
    /// The link of the connections to come, if it was set.
    link: Mutex<Option<Link>>,
}

/// A link between client and server: its headers take their time too, and a connection begins with three packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Bytes a second, each way.
    pub rate: u64,
    /// What every byte takes longer, each way: half a round trip.
    pub delay: Duration,
}

impl Link {
    /// What opening a connection takes: a packet there, one back, and the third.
    pub fn opening(self) -> Duration {
        self.delay * 2 + Duration::from_secs_f64(3.0 * HEADERS as f64 / self.rate as f64)
    }
}

/// What happened at a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A client opened a connection.
    Opened,
    /// So many bytes went from client to server.
    Sent(u64),
    /// So many bytes went from server to client.
    Received(u64),
}

/// Bytes of a stream with the headers of the packets that carry them, as many as must be.
pub fn with_headers(bytes: u64) -> u64 {
    bytes + bytes.div_ceil(PACKET) * HEADERS
}

impl Shared {
    fn note(&self, event: Event) {
        if let Some(events) = &self.events {
            events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        }
    }

    /// How the next connection passes.
    fn pipe(&self) -> Pipe {
        match *self.link.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(link) => Pipe { rate: Some(link.rate.max(1)), delay: link.delay, with_headers: true },
            None => Pipe { rate: self.rate, delay: self.delay, with_headers: false },
        }
    }

    fn new(kept: bool, rate: Option<u64>, delay: Duration) -> Shared {
        let now = Instant::now();
        Shared {
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            kept: kept.then(Mutex::default),
            rate,
            free: [Mutex::new(now), Mutex::new(now)],
            cut_at: AtomicU64::new(NEVER),
            silent_at: AtomicU64::new(NEVER),
            delay,
            moved: Mutex::default(),
            open: Mutex::default(),
            events: None,
            link: Mutex::default(),
        }
    }

    fn total(&self) -> u64 {
        self.sent.load(Ordering::Relaxed) + self.received.load(Ordering::Relaxed)
    }

    /// Waits for its turn with a way that all connections share.
    fn pace(&self, way: usize, bytes: u64, pipe: Pipe) {
        let Some(rate) = pipe.rate else { return };
        let begins = {
            let mut free = self.free[way].lock().unwrap_or_else(PoisonError::into_inner);
            let begins = (*free).max(Instant::now());
            let bytes = if pipe.with_headers { with_headers(bytes) } else { bytes };
            *free = begins + Duration::from_secs_f64(bytes as f64 / rate as f64);
            *free
        };
        thread::sleep(begins.saturating_duration_since(Instant::now()));
    }

    /// Waits as long as it takes to open a connection over a link.
    fn open(&self, pipe: Pipe) {
        if let (true, Some(rate)) = (pipe.with_headers, pipe.rate) {
            thread::sleep(Link { rate, delay: pipe.delay }.opening());
        }
    }
}

/// How one connection passes.
#[derive(Debug, Clone, Copy)]
struct Pipe {
    rate: Option<u64>,
    delay: Duration,
    with_headers: bool,
}

/// Bytes that went through a relay so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// From client to server.
    pub sent: u64,
    /// From server to client.
    pub received: u64,
}

impl Count {
    /// Both ways.
    pub fn total(self) -> u64 {
        self.sent + self.received
    }
}

impl Tap {
    /// Starts a relay to `server` on a free port of loopback.
    ///
    /// # Errors
    /// The operating system's, if no port can be had.
    pub fn start(server: SocketAddr) -> io::Result<Tap> {
        Tap::start_with(server, Shared::new(false, None, Duration::ZERO))
    }

    /// As [`Tap::start`], and all bytes of both ways are kept in memory.
    ///
    /// # Errors
    /// The operating system's, if no port can be had.
    pub fn start_keeping(server: SocketAddr) -> io::Result<Tap> {
        Tap::start_with(server, Shared::new(true, None, Duration::ZERO))
    }

    /// As [`Tap::start`], as slow as a link of `rate` bytes a second each way, which all connections share.
    ///
    /// # Errors
    /// The operating system's, if no port can be had.
    pub fn start_paced(server: SocketAddr, rate: u64) -> io::Result<Tap> {
        Tap::start_with(server, Shared::new(false, Some(rate.max(1)), Duration::ZERO))
    }

    /// Breaks the connection on which it happens, both ways, when so many more bytes have gone through, both ways together.
    pub fn cut_after(&self, bytes: u64) {
        self.shared.cut_at.store(self.shared.total() + bytes, Ordering::Relaxed);
    }

    /// Passes nothing on any more, both ways, of the connection on which so many more bytes have gone through, both ways
    /// together, and closes nothing: as a relay that has forgotten the connection. Others go on.
    pub fn fall_silent_after(&self, bytes: u64) {
        self.shared.silent_at.store(self.shared.total() + bytes, Ordering::Relaxed);
    }

    /// Has a connection fallen silent since [`Tap::fall_silent_after`]?
    pub fn has_fallen_silent(&self) -> bool {
        self.shared.silent_at.load(Ordering::Relaxed) == NEVER
    }

    /// As [`Tap::start_keeping`], and every byte takes `delay` longer each way.
    ///
    /// # Errors
    /// The operating system's, if no port can be had.
    pub fn start_delaying(server: SocketAddr, delay: Duration) -> io::Result<Tap> {
        Tap::start_with(server, Shared::new(true, None, delay))
    }

    /// As [`Tap::start`], and what happens is kept, in order, without the bytes.
    ///
    /// # Errors
    /// The operating system's, if no port can be had.
    pub fn start_tracing(server: SocketAddr) -> io::Result<Tap> {
        Tap::start_with(server, Shared { events: Some(Mutex::default()), ..Shared::new(false, None, Duration::ZERO) })
    }

    /// What happened since this was last asked; nothing unless it is kept.
    pub fn take_events(&self) -> Vec<Event> {
        let events = self.shared.events.as_ref();
        events
            .map(|events| std::mem::take(&mut *events.lock().unwrap_or_else(PoisonError::into_inner)))
            .unwrap_or_default()
    }

    /// Gives the connections to come a link, or none.
    pub fn set_link(&self, link: Option<Link>) {
        *self.shared.link.lock().unwrap_or_else(PoisonError::into_inner) = link;
    }

    /// Sends the connections to come to another server: a server that was restarted has another port.
    pub fn move_to(&self, server: SocketAddr) {
        *self.shared.moved.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
    }

    /// Breaks all connections.
    pub fn cut(&self) {
        for stream in self.shared.open.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // It may have ended by itself.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn start_with(server: SocketAddr, shared: Shared) -> io::Result<Tap> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let tap = Tap { address: listener.local_addr()?, shared: Arc::new(shared) };
        let shared = tap.shared.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                if shared.stopped.load(Ordering::Relaxed) {
                    return;
                }
                if let Ok(client) = client {
                    // A server that is gone shows to the client as a closed connection.
                    let _ = relay(client, server, &shared);
                }
            }
        });
        Ok(tap)
    }

    /// The address that clients use instead of the server's.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The counts now.
    pub fn count(&self) -> Count {
        Count { sent: self.shared.sent.load(Ordering::Relaxed), received: self.shared.received.load(Ordering::Relaxed) }
    }

    /// All bytes kept so far, both ways mixed in the order of their coming; empty unless they are kept.
    pub fn kept(&self) -> Vec<u8> {
        let kept = self.shared.kept.as_ref();
        kept.map(|bytes| bytes.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap_or_default()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for connections, so that it sees the flag.
        let _ = TcpStream::connect(self.address);
    }
}

fn relay(client: TcpStream, server: SocketAddr, shared: &Arc<Shared>) -> io::Result<()> {
    let moved = *shared.moved.lock().unwrap_or_else(PoisonError::into_inner);
    let server = TcpStream::connect(moved.unwrap_or(server))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
    let mut open = shared.open.lock().unwrap_or_else(PoisonError::into_inner);
    open.extend([client.try_clone()?, server.try_clone()?]);
    drop(open);
    let pipe = shared.pipe();
    shared.note(Event::Opened);
    let silent = Arc::new(AtomicBool::new(false));
    let (up, up_silent) = (shared.clone(), silent.clone());
    thread::spawn(move || {
        up.open(pipe);
        pump(from_client, to_server, &up, &up_silent, 0, pipe);
    });
    let down = shared.clone();
    thread::spawn(move || pump(server, client, &down, &silent, 1, pipe));
    Ok(())
}

fn pump(mut from: TcpStream, to: TcpStream, shared: &Shared, silent: &AtomicBool, way: usize, pipe: Pipe) {
    let mut buffer = vec![0; if pipe.rate.is_some() { PACED } else { 64 << 10 }];
    let count = if way == 0 { &shared.sent } else { &shared.received };
    // What is on its way: a long link holds much.
    let (sender, receiver) = sync_channel::<(Instant, Vec<u8>)>(if pipe.delay.is_zero() { 1 } else { 1024 });
    let end = to.try_clone();
    let writer = thread::spawn(move || deliver(&receiver, to));
    let mut is_cut = false;
    loop {
        let mut length = match from.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(length) => length,
        };
        if shared.silent_at.load(Ordering::Relaxed) <= shared.total() + length as u64 {
            shared.silent_at.store(NEVER, Ordering::Relaxed);
            silent.store(true, Ordering::Relaxed);
        }
        if silent.load(Ordering::Relaxed) {
            continue;
        }
        let left = shared.cut_at.load(Ordering::Relaxed).saturating_sub(shared.total());
        is_cut = left <= length as u64;
        if is_cut {
            length = usize::try_from(left).unwrap_or(length);
        }
        shared.pace(way, length as u64, pipe);
        count.fetch_add(length as u64, Ordering::Relaxed);
        shared.note(if way == 0 { Event::Sent(length as u64) } else { Event::Received(length as u64) });
        if let Some(kept) = &shared.kept {
            kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..length]);
        }
        if sender.send((Instant::now() + pipe.delay, buffer[..length].to_vec())).is_err() {
            break;
        }
        if is_cut {
            shared.cut_at.store(NEVER, Ordering::Relaxed);
            break;
        }
    }
    drop(sender);
    // The ends may be closed already.
    let _ = writer.join();
    if is_cut && let Ok(end) = &end {
        let _ = end.shutdown(Shutdown::Both);
    }
    let _ = from.shutdown(if is_cut { Shutdown::Both } else { Shutdown::Read });
}

/// Writes each piece when its time has come.
fn deliver(pieces: &Receiver<(Instant, Vec<u8>)>, mut to: TcpStream) {
    while let Ok((due, piece)) = pieces.recv() {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&piece).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
