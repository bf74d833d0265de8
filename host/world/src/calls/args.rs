//! Arguments, environment, clocks, random numbers and the process.

use crate::clock::ClockId;
use crate::{Errno, Trap, World, limits, memory as guest};

impl World {
    /// `args_get` of preview 1.
    pub fn args_get(&mut self, memory: &mut [u8], argv: u32, buffer: u32) -> Result<(), Trap> {
        put_strings(memory, &self.arguments, argv, buffer)
    }

    /// `args_sizes_get` of preview 1.
    pub fn args_sizes_get(&mut self, memory: &mut [u8], count: u32, size: u32) -> Result<(), Trap> {
        put_sizes(memory, &self.arguments, count, size)
    }

    /// `environ_get` of preview 1.
    pub fn environ_get(&mut self, memory: &mut [u8], environ: u32, buffer: u32) -> Result<(), Trap> {
        put_strings(memory, &self.environment, environ, buffer)
    }

    /// `environ_sizes_get` of preview 1.
    pub fn environ_sizes_get(&mut self, memory: &mut [u8], count: u32, size: u32) -> Result<(), Trap> {
        put_sizes(memory, &self.environment, count, size)
    }

    /// `clock_res_get` of preview 1.
    pub fn clock_res_get(&mut self, memory: &mut [u8], clock: u32, out: u32) -> Result<(), Trap> {
        ClockId::new(clock).ok_or(Errno::Inval)?;
        Ok(guest::write_u64(memory, out, limits::CLOCK_RESOLUTION)?)
    }

    /// `clock_time_get` of preview 1. Each call moves virtual time on by [`limits::CLOCK_STEP`].
    pub fn clock_time_get(&mut self, memory: &mut [u8], clock: u32, _precision: u64, out: u32) -> Result<(), Trap> {
        let clock = ClockId::new(clock).ok_or(Errno::Inval)?;
        self.asked.clock += 1;
        self.clock.pass(limits::CLOCK_STEP);
        Ok(guest::write_u64(memory, out, self.clock.read(clock))?)
    }

    /// `random_get` of preview 1.
    pub fn random_get(&mut self, memory: &mut [u8], buffer: u32, length: u32) -> Result<(), Trap> {
        if length > limits::RANDOM {
            return Err(Errno::Inval.into());
        }
        let range = guest::range(memory, buffer, length)?;
        self.asked.random += 1;
        self.random.fill(&mut memory[range]);
        Ok(())
    }

    /// `proc_exit` of preview 1.
    pub fn proc_exit(&mut self, _memory: &mut [u8], code: u32) -> Result<(), Trap> {
        Err(Trap::Exit(code))
    }

    /// `proc_raise` of preview 1: there are no signals.
    pub fn proc_raise(&mut self, _memory: &mut [u8], _signal: u32) -> Result<(), Trap> {
        Err(Errno::Notsup.into())
    }

    /// `sched_yield` of preview 1.
    pub fn sched_yield(&mut self, _memory: &mut [u8]) -> Result<(), Trap> {
        Ok(())
    }

    /// `progress` of `opship_1`: for people who watch; no effect.
    pub fn set_progress(&mut self, _memory: &mut [u8], done: u64, total: u64) -> Result<(), Trap> {
        self.progress = Some((done, total));
        Ok(())
    }
}

fn put_strings(memory: &mut [u8], strings: &[Vec<u8>], pointers: u32, buffer: u32) -> Result<(), Trap> {
    let (mut pointers, mut buffer) = (pointers, buffer);
    for string in strings {
        guest::write_u32(memory, pointers, buffer)?;
        guest::write(memory, buffer, string)?;
        pointers = guest::at(pointers, 4)?;
        buffer = guest::at(buffer, length(string.len())?)?;
    }
    Ok(())
}

fn put_sizes(memory: &mut [u8], strings: &[Vec<u8>], count: u32, size: u32) -> Result<(), Trap> {
    guest::write_u32(memory, count, length(strings.len())?)?;
    Ok(guest::write_u32(memory, size, length(strings.iter().map(Vec::len).sum())?)?)
}

fn length(value: usize) -> Result<u32, Errno> {
    u32::try_from(value).map_err(|_| Errno::Overflow)
}
