// Large files, deep trees, many files.

import * as wasi from "./preview1";
import { bytesOf, content, hex, must, say, sayNumber, slurp, sorted, spill, SUM_START, sumOn, tell, writeAll, yes } from "./text";

const BLOCK: i32 = 64 << 10;

// Bytes that no compressor makes smaller: a linear congruential generator's words.
function fill(block: Uint8Array, state: u64): u64 {
  for (let at = 0; at < block.length; at += 8) {
    state = state * 6364136223846793005 + 1442695040888963407;
    store<u64>(block.dataStart + at, state);
  }
  return state;
}

// False at the end of the file.
function readBlock(fd: i64, block: Uint8Array): bool {
  let filled = 0;
  while (filled < block.length) {
    const count = <i32>must(wasi.read(fd, block.subarray(filled)), "read");
    if (count == 0) return false;
    filled += count;
  }
  return true;
}

export function large(mib: i32): void {
  const blocks = mib * ((1 << 20) / BLOCK);
  const block = new Uint8Array(BLOCK);
  let middle = new Uint8Array(0);
  let state: u64 = 1;
  let fd = must(wasi.open("large", wasi.EMPTIED, wasi.WRITE), "large");
  for (let i = 0; i < blocks; i++) {
    state = fill(block, state);
    must(writeAll(fd, block), "large");
    if (i == blocks / 2) middle = block.slice();
  }
  wasi.close(fd);
  sayNumber("size", wasi.stat("large", true)!.size);
  fd = must(wasi.open("large", 0, wasi.READ), "large");
  let sum = SUM_START;
  while (readBlock(fd, block)) sum = sumOn(sum, block);
  say("sum", hex(sum));
  must(wasi.seek(fd, <i64>(blocks / 2) * BLOCK, 0), "large");
  readBlock(fd, block);
  say("the middle is what was written", yes(memory.compare(block.dataStart, middle.dataStart, BLOCK) == 0));
  wasi.close(fd);
}

// Makes `levels` directories, one in the other, below `top`; gives the path of the last.
function makeLevels(top: string, levels: i32): string {
  let path = top;
  must(wasi.makeDirectory(path), path);
  for (let level = 0; level < levels; level++) {
    path += "/n";
    must(wasi.makeDirectory(path), path);
  }
  return path;
}

function hasDirectory(path: string): bool {
  const status = wasi.stat(path, true);
  return status != null && wasi.isDirectory(status.kind);
}

export function deep(levels: i32): void {
  const leaf = makeLevels("deep", levels) + "/leaf";
  must(spill(leaf, bytesOf("leaf\n")), leaf);
  say("the bottom", content(leaf));
  let found = 0;
  for (let path = "deep/n"; hasDirectory(path); path += "/n") found++;
  sayNumber("levels", found);
  say("up and down again", yes(hasDirectory("deep/n/../../deep/n")));
  let path = makeLevels("gone", levels);
  let removed: i64 = 0;
  for (let level = levels; level >= 0 && removed == 0; level--) {
    removed = wasi.removeDirectory(path);
    path = path.substring(0, path.length - 2);
  }
  tell("remove all", removed);
  say("gone", yes(!hasDirectory("gone")));
}

export function many(count: i32): void {
  must(wasi.makeDirectory("many"), "many");
  for (let number = 0; number < count; number++) {
    const path = "many/" + number.toString().padStart(6, "0");
    const fd = must(wasi.open(path, wasi.EXCLUSIVE, wasi.WRITE), path);
    must(writeAll(fd, bytesOf("file " + number.toString() + "\n")), path);
    wasi.close(fd);
  }
  const entries = sorted(wasi.list("many")!);
  let names = SUM_START;
  let sum = SUM_START;
  for (let i = 0; i < entries.length; i++) {
    names = sumOn(names, bytesOf(entries[i].name));
    sum = sumOn(sum, slurp("many/" + entries[i].name));
  }
  say("listed", entries.length.toString() + ", sum " + hex(names));
  say("read", "sum " + hex(sum));
  for (let number = 0; number < count; number++) {
    const path = "many/" + number.toString().padStart(6, "0");
    if (number % 1000 != 0) must(wasi.removeFile(path), path);
  }
  sayNumber("left", wasi.list("many")!.length);
}
