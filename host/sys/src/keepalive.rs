//! Noticing that the other end of a connection is gone (tcp(7), `SO_KEEPALIVE` and `TCP_USER_TIMEOUT`; RFC 1122 §4.2.3.6,
//! RFC 5482).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Questions that stay without an answer before a connection counts as gone.
const QUESTIONS: libc::c_int = 4;

/// Makes a TCP connection end with `ETIMEDOUT` when the other end is gone: when it does not acknowledge for `unacknowledged`
/// what was sent, or when nothing came for `idle` and four questions, each `idle / 4` apart, stay without an answer.
///
/// # Errors
/// The operating system's: `ENOPROTOOPT` or `EOPNOTSUPP` if it is no TCP socket, `EINVAL` for an `idle` over nine hours.
pub fn notice_loss(socket: BorrowedFd<'_>, idle: Duration, unacknowledged: Duration) -> io::Result<()> {
    let number = |number: u128| libc::c_int::try_from(number).unwrap_or(libc::c_int::MAX);
    let seconds = |time: Duration| number(u128::from(time.as_secs().max(1)));
    set(socket, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    set(socket, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, seconds(idle))?;
    set(socket, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, seconds(idle / 4))?;
    set(socket, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, QUESTIONS)?;
    set(socket, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, number(unacknowledged.as_millis()))
}

#[allow(unsafe_code)]
pub(crate) fn set(socket: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open for the whole call, since it is borrowed; the value is an integer of the length given,
    // which lives as long as the call, and the call only reads it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(&value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_connection_asks_when_it_was_told_to() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        notice_loss(stream.as_fd(), Duration::from_secs(60), Duration::from_secs(120)).unwrap();
        // Linux tells of a connection's timer in /proc/net/tcp: kind 02 is that of keepalive.
        let port = format!(":{:04X}", stream.local_addr().unwrap().port());
        let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let own = sockets.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
        let timers: Vec<_> =
            own.filter(|fields| fields[1].ends_with(&port)).map(|fields| fields[5].to_owned()).collect();
        assert!(timers.iter().any(|timer| timer.starts_with("02:")), "{timers:?}");
        let (no_tcp, _other) = UnixStream::pair().unwrap();
        assert!(notice_loss(no_tcp.as_fd(), Duration::from_secs(60), Duration::from_secs(120)).is_err());
    }
}
