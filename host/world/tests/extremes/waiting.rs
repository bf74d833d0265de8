//! Clocks and polling.

use crate::*;

/// A subscription to a clock: which, for how long, is that a point in time.
fn clock(user: u64, clock: u32, timeout: u64, absolute: u16) -> Vec<u8> {
    let mut bytes = vec![0; 48];
    bytes[..8].copy_from_slice(&user.to_le_bytes());
    bytes[16..20].copy_from_slice(&clock.to_le_bytes());
    bytes[24..32].copy_from_slice(&timeout.to_le_bytes());
    bytes[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
    bytes[40..42].copy_from_slice(&absolute.to_le_bytes());
    bytes
}

const SUBSCRIPTIONS: u32 = 0x10_0000;
const EVENTS: u32 = 0x20_0000;

/// Which subscriptions came due, each with its errno, and how much time has passed.
fn poll(guest: &mut Guest, subscriptions: &[Vec<u8>]) -> (Vec<(u64, u16)>, u64) {
    guest.put(SUBSCRIPTIONS, &subscriptions.concat());
    let count = subscriptions.len() as u32;
    let Guest { world, memory } = &mut *guest;
    world.poll_oneoff(memory, SUBSCRIPTIONS, EVENTS, count, OUT).unwrap();
    let events = (0..guest.u32_at(OUT)).map(|index| EVENTS + index * 32);
    let events = events.map(|at| (guest.u64_at(at), guest.u32_at(at + 8) as u16)).collect();
    let Guest { world, memory } = &mut *guest;
    world.clock_time_get(memory, 2, 0, OUT).unwrap();
    (events, guest.u64_at(OUT).saturating_sub(limits::CLOCK_STEP))
}

#[test]
fn absurd_timeouts_end_at_once_and_time_stands_still_at_its_end() {
    let now = limits::MONOTONIC_BASE;
    // Subscriptions, those that come due, and the time that has passed.
    type Case<'a> = (&'a [Vec<u8>], &'a [u64], u64);
    let table: [Case; 9] = [
        (&[clock(1, 1, 0, 0)], &[1], 0),
        (&[clock(1, 1, 5, 0)], &[1], 5),
        (&[clock(1, 1, u64::MAX, 0)], &[1], u64::MAX - limits::CLOCK_STEP),
        (&[clock(1, 1, u64::MAX, 1)], &[1], u64::MAX - now),
        (&[clock(1, 0, u64::MAX, 1)], &[1], u64::MAX - START),
        (&[clock(1, 1, now, 1), clock(2, 1, u64::MAX, 0)], &[1], 0),
        (&[clock(1, 1, 0, 1), clock(2, 1, 0, 0), clock(3, 1, 1, 0)], &[1, 2], 0),
        (&[clock(1, 0, START + 7, 1), clock(2, 1, 7, 0), clock(3, 1, now + 7, 1), clock(4, 1, 8, 0)], &[1, 2, 3], 7),
        (&[clock(1, 1, 1 << 63, 0), clock(2, 1, u64::MAX, 1)], &[1], 1 << 63),
    ];
    for (subscriptions, due, passed) in table {
        let mut guest = guest();
        let (events, time) = poll(&mut guest, subscriptions);
        assert_eq!(events, due.iter().map(|user| (*user, 0)).collect::<Vec<_>>());
        assert_eq!(time, passed, "{due:?}");
    }
    let mut guest = guest();
    for _ in 0..3 {
        poll(&mut guest, &[clock(1, 1, u64::MAX, 0)]);
        for id in 0..4 {
            guest.world.clock_time_get(&mut guest.memory, id, 0, OUT).unwrap();
            assert_eq!(guest.u64_at(OUT), u64::MAX);
        }
    }
    guest.write_file("f", b"late").unwrap();
    assert_eq!(guest.stat("f", 0).unwrap().mtime, SIGNED);
    assert_eq!(guest.changes().len(), 1);
}

#[test]
fn what_cannot_be_waited_for_is_an_event_with_an_errno() {
    let mut guest = guest();
    for unknown in [4, 5, u32::MAX] {
        let (events, passed) = poll(&mut guest, &[clock(1, unknown, 9, 0), clock(2, 1, u64::MAX, 0)]);
        assert_eq!(events, [(1, Errno::Inval.raw())]);
        assert!(passed < 1_000_000);
    }
    let mut kind = clock(1, 1, 0, 0);
    for tag in [3, 4, 255] {
        kind[8] = tag;
        guest.put(SUBSCRIPTIONS, &kind);
        let Guest { world, memory } = &mut guest;
        assert_eq!(errno(world.poll_oneoff(memory, SUBSCRIPTIONS, EVENTS, 1, OUT)), Err(Errno::Inval), "{tag}");
    }
}

#[test]
fn as_many_subscriptions_as_there_may_be_anywhere_in_the_memory() {
    let mut guest = guest();
    let most = limits::SUBSCRIPTIONS;
    let all: Vec<Vec<u8>> = (0..u64::from(most)).map(|user| clock(user, 1, 3, 0)).collect();
    assert_eq!(poll(&mut guest, &all).0.len(), most as usize);
    let end = guest.memory.len() as u32;
    let table = [
        (SUBSCRIPTIONS, EVENTS, most + 1, OUT, Err(Errno::Inval)),
        (SUBSCRIPTIONS, EVENTS, u32::MAX, OUT, Err(Errno::Inval)),
        (end - 47, EVENTS, 1, OUT, Err(Errno::Fault)),
        (u32::MAX, EVENTS, 1, OUT, Err(Errno::Fault)),
        (SUBSCRIPTIONS, end - 31, 1, OUT, Err(Errno::Fault)),
        (SUBSCRIPTIONS, EVENTS, 1, end - 3, Err(Errno::Fault)),
        (end - 48, EVENTS, 1, OUT, Ok(())),
        // Events may be written over the subscriptions, which were read before.
        (SUBSCRIPTIONS, SUBSCRIPTIONS + 8, most, OUT, Ok(())),
    ];
    for (subscriptions, events, count, out, expected) in table {
        let Guest { world, memory } = &mut guest;
        let result = errno(world.poll_oneoff(memory, subscriptions, events, count, out));
        assert_eq!(result, expected, "{subscriptions} {events} {count}");
    }
}
