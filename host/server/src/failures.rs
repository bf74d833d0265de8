//! Failed attempts, counted by where they came from.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Failures that one address may have in a [`WINDOW`].
const ALLOWED: u32 = 10;
/// How long failures count.
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses that are remembered; with more, the count is one for all others.
const ADDRESSES: usize = 4096;

/// Counts failures, so that guessing is slow. What is guessed at has 160 random bits; this keeps logs and processor quiet.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<HashMap<Option<IpAddr>, (Instant, u32)>>);

impl Failures {
    /// Has this address failed too often of late?
    pub(crate) fn too_many(&self, from: IpAddr, now: Instant) -> bool {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = Some(network(from));
        let place = if counts.contains_key(&place) { place } else { None };
        counts.get(&place).is_some_and(|(since, count)| *count >= ALLOWED && now.duration_since(*since) < WINDOW)
    }

    /// It has failed once more.
    pub(crate) fn count(&self, from: IpAddr, now: Instant) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut place = Some(network(from));
        if !counts.contains_key(&place) && counts.len() >= ADDRESSES {
            counts.retain(|_, (since, _)| now.duration_since(*since) < WINDOW);
            if counts.len() >= ADDRESSES {
                place = None;
            }
        }
        let (since, count) = counts.entry(place).or_insert((now, 0));
        if now.duration_since(*since) >= WINDOW {
            (*since, *count) = (now, 0);
        }
        *count += 1;
    }
}

/// One subscriber has a /64 of IPv6 at least.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => v4.into(),
            None => std::net::Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn ten_failures_a_minute_are_allowed_to_each_network() {
        let (failures, start) = (Failures::default(), Instant::now());
        let at = |text: &str| text.parse::<IpAddr>().unwrap();
        for _ in 0..ALLOWED {
            assert!(!failures.too_many(at("2001:db8::1"), start));
            failures.count(at("2001:db8::1"), start);
        }
        assert!(failures.too_many(at("2001:db8::2"), start), "the same network");
        assert!(!failures.too_many(at("10.0.0.1"), start) && !failures.too_many(at("2001:db8:0:1::1"), start));
        assert!(!failures.too_many(at("2001:db8::1"), start + WINDOW));
        failures.count(at("2001:db8::1"), start + WINDOW);
        assert!(!failures.too_many(at("2001:db8::1"), start + WINDOW));
    }

    #[test]
    fn many_addresses_take_no_more_memory_and_are_counted_together() {
        let (failures, start) = (Failures::default(), Instant::now());
        for n in 0..ADDRESSES as u32 + 2 * ALLOWED {
            failures.count(std::net::Ipv4Addr::from_bits(n).into(), start);
        }
        assert!(failures.0.lock().unwrap().len() <= ADDRESSES + 1);
        assert!(failures.too_many("203.0.113.1".parse().unwrap(), start));
    }
}
