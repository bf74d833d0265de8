//! How much a socket takes that it cannot send yet (tcp(7), `TCP_NOTSENT_LOWAT`).

use crate::keepalive::set;
use std::io;
use std::os::fd::BorrowedFd;

/// Makes a TCP socket take more bytes only while fewer than `bytes` of what it has are unsent. So what is written next
/// leaves soon, and what one stops writing stops soon; what is on its way already is not bounded by this.
///
/// # Errors
/// The operating system's: `ENOPROTOOPT` if it is no TCP socket.
pub fn limit_unsent(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes.cast_signed())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;

    #[test]
    fn a_limited_socket_takes_less_than_one_without_a_limit() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = |limit: Option<u32>| {
            let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            // Accepted and never read from.
            let reader = listener.accept().unwrap();
            limit.into_iter().for_each(|bytes| limit_unsent(stream.as_fd(), bytes).unwrap());
            stream.set_nonblocking(true).unwrap();
            let mut taken = 0;
            while let Ok(count) = stream.write(&[0; 16 << 10]) {
                taken += count;
            }
            drop(reader);
            taken
        };
        let (limited, unlimited) = (taken(Some(16 << 10)), taken(None));
        assert!(limited < unlimited, "{limited} and {unlimited}");
        assert!(limit_unsent(UdpSocket::bind("127.0.0.1:0").unwrap().as_fd(), 1).is_err());
    }
}
