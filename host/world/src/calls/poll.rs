//! Waiting: files are always ready, and sleeping jumps.

use crate::clock::ClockId;
use crate::descriptors::{Descriptor, Handle};
use crate::{Errno, Trap, World, limits, memory as guest};

const SUBSCRIPTION: u32 = 48;
const EVENT: usize = 32;
const CLOCK: u8 = 0;
const READ: u8 = 1;
const WRITE: u8 = 2;
const ABSOLUTE: u16 = 1;

struct Subscription {
    user: u64,
    kind: u8,
    /// Nanoseconds until it is due; 0 for what is ready. An error is reported at once.
    wait: Result<u64, Errno>,
}

impl World {
    /// `poll_oneoff` of preview 1. If a file is among the subscriptions, what is ready is reported and no time passes;
    /// otherwise virtual time jumps to the first deadline.
    pub fn poll_oneoff(
        &mut self,
        memory: &mut [u8],
        subscriptions: u32,
        events: u32,
        count: u32,
        nevents: u32,
    ) -> Result<(), Trap> {
        if count == 0 || count > limits::SUBSCRIPTIONS {
            return Err(Errno::Inval.into());
        }
        guest::range(memory, subscriptions, count * SUBSCRIPTION)?;
        guest::range(memory, nevents, 4)?;
        let mut all = Vec::with_capacity(count as usize);
        for index in 0..count {
            all.push(self.subscription(memory, subscriptions + index * SUBSCRIPTION)?);
        }
        let first = all.iter().map(|s| s.wait.unwrap_or(0)).min().unwrap_or(0);
        self.asked.poll += 1;
        self.clock.pass(first);
        let due: Vec<u8> = all.iter().filter(|s| s.wait.unwrap_or(0) <= first).flat_map(event).collect();
        guest::write(memory, events, &due)?;
        Ok(guest::write_u32(memory, nevents, u32::try_from(due.len() / EVENT).map_err(|_| Errno::Overflow)?)?)
    }

    fn subscription(&self, memory: &[u8], at: u32) -> Result<Subscription, Trap> {
        let user = guest::read_u64(memory, at)?;
        let kind = guest::bytes(memory, at + 8, 1)?[0];
        let wait = match kind {
            CLOCK => self.clock_wait(memory, at)?,
            READ | WRITE => {
                let ready = self.descriptors.get(guest::read_u32(memory, at + 16)?);
                let fits = |d: &Descriptor| {
                    !matches!(d.handle, Handle::Directory(_)) && if kind == READ { d.read } else { d.write }
                };
                if ready.is_ok_and(fits) { Ok(0) } else { Err(Errno::Badf) }
            }
            _ => return Err(Errno::Inval.into()),
        };
        Ok(Subscription { user, kind, wait })
    }

    fn clock_wait(&self, memory: &[u8], at: u32) -> Result<Result<u64, Errno>, Trap> {
        let Some(clock) = ClockId::new(guest::read_u32(memory, at + 16)?) else { return Ok(Err(Errno::Inval)) };
        let timeout = guest::read_u64(memory, at + 24)?;
        let flags = guest::bytes(memory, at + 40, 2)?;
        let is_absolute = u16::from_le_bytes([flags[0], flags[1]]) & ABSOLUTE != 0;
        Ok(Ok(if is_absolute { timeout.saturating_sub(self.clock.read(clock)) } else { timeout }))
    }
}

/// The event's bytes. A ready file always says 1 byte: how many there are is nothing that a guest may depend on.
fn event(subscription: &Subscription) -> [u8; EVENT] {
    let mut event = [0; EVENT];
    event[..8].copy_from_slice(&subscription.user.to_le_bytes());
    let errno = subscription.wait.err().unwrap_or(Errno::Success);
    event[8..10].copy_from_slice(&errno.raw().to_le_bytes());
    event[10] = subscription.kind;
    if subscription.kind != CLOCK && errno == Errno::Success {
        event[16..24].copy_from_slice(&1u64.to_le_bytes());
    }
    event
}
