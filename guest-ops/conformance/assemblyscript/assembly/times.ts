// Clocks and random numbers.

import * as wasi from "./preview1";
import { bytesOf, must, say, spill, yes } from "./text";

// 2020-01-01 in milliseconds since 1970.
const Y2020: i64 = 1577836800000;
const MILLISECOND: u64 = 1000000;

export function clocks(): void {
  const before = <i64>Date.now();
  say("the real time is after 2020", yes(before > Y2020));
  const first = wasi.monotonic();
  let last = first;
  let back = false;
  for (let i = 0; i < 1000; i++) {
    const now = wasi.monotonic();
    back = back || now < last;
    last = now;
  }
  say("the monotonic time goes back", yes(back));
  say("the monotonic time goes on", yes(last > first));
  const start = wasi.monotonic();
  must(wasi.sleep(20 * MILLISECOND), "sleep");
  say("a sleep of 20 ms takes that long", yes(wasi.monotonic() - start >= 20 * MILLISECOND));
  must(spill("stamped", bytesOf("now\n")), "stamped");
  const made = <i64>(wasi.stat("stamped", true)!.mtime / MILLISECOND);
  // A disk may round a file's time down.
  say("a new file's time is now", yes(made >= before - 2000 && made <= <i64>Date.now()));
}

export function randomBytes(): void {
  const one = new Uint8Array(4096);
  const two = new Uint8Array(4096);
  crypto.getRandomValues(one);
  crypto.getRandomValues(two);
  const seen = new StaticArray<bool>(256);
  let distinct = 0;
  let end: u8 = 0;
  let differ = false;
  for (let i = 0; i < one.length; i++) {
    if (!seen[one[i]]) distinct++;
    seen[one[i]] = true;
    if (i >= 4064) end |= one[i];
    differ = differ || one[i] != two[i];
  }
  // Of 4096 random bytes fewer than 200 different ones are as likely as none.
  say("all kinds of bytes", yes(distinct > 200));
  say("the end is filled", yes(end != 0));
  say("two draws differ", yes(differ));
}
