//! A relay that loses replies: the request reaches the server, and the connection breaks before its answer is passed on.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A relay to a server on a free port of loopback.
#[derive(Debug)]
pub struct Cutter {
    address: SocketAddr,
    left: Arc<AtomicU64>,
}

impl Cutter {
    /// Starts a relay to `server`, which passes all on until [`Cutter::cut_after`].
    pub fn start(server: SocketAddr) -> Cutter {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, left) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(u64::MAX)));
        let shared = Arc::clone(&left);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(server) else { continue };
                relay(client, server, &shared);
            }
        });
        Cutter { address, left }
    }

    /// The address that clients use instead of the server's.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Passes so many pieces of replies on, loses the next with its connection, and then passes all on again.
    pub fn cut_after(&self, pieces: u64) {
        self.left.store(pieces, Ordering::SeqCst);
    }

    /// Was a reply lost since [`Cutter::cut_after`]?
    pub fn has_cut(&self) -> bool {
        // Counted on below zero from there.
        self.left.load(Ordering::SeqCst) > u64::MAX / 2
    }
}

fn relay(client: TcpStream, server: TcpStream, left: &Arc<AtomicU64>) {
    let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::spawn(move || {
        // The ends may be closed already.
        let _ = std::io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let (mut from_server, mut to_client, left) = (server, client, Arc::clone(left));
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from_server.read(&mut buffer) {
            if left.fetch_sub(1, Ordering::SeqCst) == 0 || to_client.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        let _ = to_client.shutdown(Shutdown::Both);
        let _ = from_server.shutdown(Shutdown::Both);
    });
}
