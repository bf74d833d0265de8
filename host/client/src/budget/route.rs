//! By which interface a server is reached, as the kernel's main routing table says.

use crate::net::ServerUrl;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs};

/// The interface of the route to a server; `None` where there is none or it cannot be told.
pub(super) fn interface_to(server: &ServerUrl) -> Option<String> {
    let address = (server.host(), server.port()).to_socket_addrs().ok()?.next()?.ip();
    if address.is_loopback() {
        return Some("lo".to_owned());
    }
    let table = |file| std::fs::read_to_string(file).unwrap_or_default();
    match address {
        IpAddr::V4(address) => route_v4(&table("/proc/net/route"), address),
        IpAddr::V6(address) => route_v6(&table("/proc/net/ipv6_route"), address),
    }
}

/// Does an interface have this name? A `*` at the end stands for anything.
pub(super) fn matches(pattern: &str, interface: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => interface.starts_with(start),
        None => pattern == interface,
    }
}

/// Reads `/proc/net/route`: interface, destination, gateway, flags, and on; numbers in hexadecimal, addresses in the
/// machine's byte order. The longest mask wins, then the lowest metric.
fn route_v4(table: &str, to: Ipv4Addr) -> Option<String> {
    let routes = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |field: &str| u32::from_str_radix(field, 16).ok();
        let [interface, destination, _, flags, _, _, metric, mask, ..] = fields.as_slice() else { return None };
        let (destination, mask) = (number(destination)?, number(mask)?);
        let up = number(flags)? & 1 == 1;
        let fits = u32::from_ne_bytes(to.octets()) & mask == destination;
        (up && fits)
            .then(|| (mask.count_ones(), std::cmp::Reverse(metric.parse::<u32>().ok()), (*interface).to_owned()))
    });
    routes.max().map(|(_, _, interface)| interface)
}

/// Reads `/proc/net/ipv6_route`: destination, its length, source, its length, next hop, metric, two counts, flags,
/// interface; all in hexadecimal.
fn route_v6(table: &str, to: Ipv6Addr) -> Option<String> {
    let routes = table.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [destination, length, _, _, _, metric, _, _, flags, interface] = fields.as_slice() else { return None };
        let number = |field: &str| u32::from_str_radix(field, 16).ok();
        let (destination, length) = (u128::from_str_radix(destination, 16).ok()?, number(length)?);
        let mask = u128::MAX.checked_shl(128 - length.min(128)).unwrap_or(0);
        // A route that rejects (0x200) is none.
        let up = number(flags)? & 0x201 == 1;
        let fits = to.to_bits() & mask == destination;
        (up && fits && *interface != "lo").then(|| (length, std::cmp::Reverse(number(metric)), (*interface).to_owned()))
    });
    routes.max().map(|(_, _, interface)| interface)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_longest_mask_wins_then_the_lowest_metric() {
        let number = |address: &str| u32::from_ne_bytes(address.parse::<Ipv4Addr>().unwrap().octets());
        let line = |interface: &str, to: &str, flags: u32, metric: u32, mask: &str| {
            format!(
                "{interface}\t{:08X}\t00000000\t{flags:04X}\t0\t0\t{metric}\t{:08X}\t0\t0\t0\n",
                number(to),
                number(mask)
            )
        };
        let table = "Iface\tDestination\n".to_owned()
            + &line("wwan0", "0.0.0.0", 3, 700, "0.0.0.0")
            + &line("eth0", "0.0.0.0", 3, 100, "0.0.0.0")
            + &line("down0", "10.0.0.0", 0, 0, "255.0.0.0")
            + &line("usb0", "10.1.0.0", 1, 0, "255.255.0.0");
        let to = |address: &str| route_v4(&table, address.parse().unwrap());
        assert_eq!(to("192.0.2.1").as_deref(), Some("eth0"));
        assert_eq!(to("10.1.2.3").as_deref(), Some("usb0"));
        assert_eq!(to("10.2.0.1").as_deref(), Some("eth0"));
        assert_eq!(route_v4("", Ipv4Addr::LOCALHOST), None);
        assert_eq!(route_v4("x\ngarbage\n", Ipv4Addr::LOCALHOST), None);
    }

    #[test]
    fn routes_of_ipv6_are_read_too() {
        let zero = "0".repeat(32);
        let net = "20010db8".to_owned() + &"0".repeat(24);
        let table = format!(
            "{zero} 00 {zero} 00 {zero} 00000400 1 0 00000003 wwan0\n{net} 20 {zero} 00 {zero} 00000100 1 0 00000001 eth0\n{zero} 00 {zero} 00 {zero} ffffffff 1 0 00200200 lo\n"
        );
        assert_eq!(route_v6(&table, "2001:db8::1".parse().unwrap()).as_deref(), Some("eth0"));
        assert_eq!(route_v6(&table, "2001:db9::1".parse().unwrap()).as_deref(), Some("wwan0"));
    }

    #[test]
    fn patterns_end_in_a_star_or_are_names() {
        assert!(matches("usb*", "usb0") && matches("*", "x") && matches("eth0", "eth0"));
        assert!(!matches("usb*", "eth0") && !matches("eth", "eth0"));
    }
}
