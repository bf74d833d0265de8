//! What went over the wire, and what that takes at a link's rate: virtual time.

use opship_tap::{Event, Link, PACKET, with_headers};
use std::time::Duration;

/// Bytes of a packet's TCP header, which is above IP; its IP header is not.
const TCP_HEADER: u64 = 20;

/// One exchange, from its first byte to its last, with the time that both ends computed.
#[derive(Debug, Clone)]
pub(super) struct Trace {
    /// Connections that were opened.
    opened: u32,
    /// Bytes that went one way before others went back, by turns: each depends on the one before it.
    bursts: Vec<u64>,
    /// The measured time on loopback, where the bytes themselves take none that counts.
    pub(super) computing: Duration,
}

impl Trace {
    /// From what a relay saw.
    pub(super) fn new(events: &[Event], computing: Duration) -> Trace {
        let (mut opened, mut bursts, mut last) = (0, Vec::new(), None);
        for event in events {
            let (is_sent, bytes) = match *event {
                Event::Opened => {
                    opened += 1;
                    continue;
                }
                Event::Sent(bytes) => (true, bytes),
                Event::Received(bytes) => (false, bytes),
            };
            match bursts.last_mut() {
                Some(burst) if last == Some(is_sent) => *burst += bytes,
                _ => bursts.push(bytes),
            }
            last = Some(is_sent);
        }
        Trace { opened, bursts, computing }
    }

    /// All bytes above IP of the open connection, both ways: the streams and the TCP headers of their packets.
    pub(super) fn bytes(&self) -> u64 {
        self.bursts.iter().map(|bytes| bytes + bytes.div_ceil(PACKET) * TCP_HEADER).sum()
    }

    /// Turns of the wire, two a round trip.
    pub(super) fn round_trips(&self) -> f64 {
        self.bursts.len() as f64 / 2.0
    }

    /// What the open connection's bytes take.
    pub(super) fn on_link(&self, link: Link) -> Duration {
        let one = |bytes: &u64| link.delay + Duration::from_secs_f64(with_headers(*bytes) as f64 / link.rate as f64);
        self.bursts.iter().map(one).sum()
    }

    /// What it takes to open the connections, one after the other.
    pub(super) fn opening(&self, link: Link) -> Duration {
        link.opening() * self.opened
    }

    /// From the start to the verdict, on an open connection.
    pub(super) fn time(&self, link: Link) -> Duration {
        self.on_link(link) + self.computing
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn each_turn_takes_half_a_round_trip_and_its_bytes_with_headers() {
        let events = [Event::Opened, Event::Sent(1_000), Event::Sent(1_000), Event::Received(100)];
        let trace = Trace::new(&events, Duration::from_secs(1));
        let link = Link { rate: 1_000, delay: Duration::from_millis(50) };
        assert_eq!(trace.on_link(link), Duration::from_millis(50 + 2_080 + 50 + 140));
        assert_eq!(trace.time(link), Duration::from_millis(3_320));
        assert_eq!(trace.opening(link), Duration::from_millis(100 + 120));
        assert_eq!((trace.bytes(), trace.round_trips()), (2_100 + 3 * TCP_HEADER, 1.0));
    }
}
