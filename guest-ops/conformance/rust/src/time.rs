//! Clocks and random numbers.

use crate::text::{say, yes};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// 2020-01-01 in seconds since 1970.
const Y2020: Duration = Duration::from_secs(1_577_836_800);

pub(crate) fn clocks() -> io::Result<()> {
    let before = SystemTime::now();
    say("the real time is after 2020", yes(before.duration_since(UNIX_EPOCH).is_ok_and(|time| time > Y2020)));
    let first = Instant::now();
    let mut last = first;
    let mut back = false;
    for _ in 0..1000 {
        let now = Instant::now();
        back |= now < last;
        last = now;
    }
    say("the monotonic time goes back", yes(back));
    say("the monotonic time goes on", yes(last > first));
    let start = Instant::now();
    std::thread::sleep(Duration::from_millis(20));
    say("a sleep of 20 ms takes that long", yes(start.elapsed() >= Duration::from_millis(20)));
    fs::write("stamped", "now\n")?;
    let made = fs::metadata("stamped")?.modified()?;
    // A disk may round a file's time down.
    let from = before - Duration::from_secs(2);
    say("a new file's time is now", yes(made >= from && made <= SystemTime::now()));
    Ok(())
}

pub(crate) fn random() -> io::Result<()> {
    let (mut one, mut two) = ([0; 4096], [0; 4096]);
    fill(&mut one)?;
    fill(&mut two)?;
    // Of 4096 random bytes fewer than 200 different ones are as likely as none.
    let distinct: BTreeSet<u8> = one.iter().copied().collect();
    say("all kinds of bytes", yes(distinct.len() > 200));
    say("the end is filled", yes(one[4064..].iter().any(|byte| *byte != 0)));
    say("two draws differ", yes(one != two));
    Ok(())
}

#[cfg(target_os = "wasi")]
fn fill(buffer: &mut [u8]) -> io::Result<()> {
    crate::preview1::random(buffer)
}

#[cfg(not(target_os = "wasi"))]
fn fill(buffer: &mut [u8]) -> io::Result<()> {
    io::Read::read_exact(&mut fs::File::open("/dev/urandom")?, buffer)
}
