// The text form of what was seen: the same as the guests in other languages print.

import { errnoToString } from "@assemblyscript/wasi-shim/assembly/bindings/wasi_snapshot_preview1";
import * as wasi from "./preview1";

export function say(what: string, text: string): void {
  process.stdout.write(what + ": " + text + "\n");
}

export function sayNumber(what: string, value: i64): void {
  say(what, value.toString());
}

// Prints `WHAT: ok`, or the errno's name if `result` is one.
export function tell(what: string, result: i64): void {
  say(what, result < 0 ? errorName(result) : "ok");
}

export function errorName(errno: i64): string {
  return "E" + errnoToString(<u16>-errno);
}

export function yes(truth: bool): string {
  return truth ? "yes" : "no";
}

// Ends the guest if a step that prepares another has failed; else gives its result on.
export function must(result: i64, what: string): i64 {
  if (result < 0) {
    process.stderr.write(what + ": " + errorName(result) + "\n");
    process.exit(1);
  }
  return result;
}

export function bytesOf(text: string): Uint8Array {
  return Uint8Array.wrap(String.UTF8.encode(text));
}

export function hex(value: u64): string {
  let text = "";
  for (let shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef".charAt(<i32>((value >> shift) & 15));
  return text;
}

// Printable ASCII as it is, the rest escaped.
export function quoted(bytes: Uint8Array, length: i64 = bytes.length): string {
  let text = '"';
  for (let i = 0; i < <i32>length; i++) {
    const byte = bytes[i];
    if (byte == 0x0a) text += "\\n";
    else if (byte == 0) text += "\\0";
    else if (byte >= 0x20 && byte <= 0x7e) text += String.fromCharCode(byte);
    else text += "\\x" + hex(byte).substring(14);
  }
  return text + '"';
}

export function slurp(path: string): Uint8Array {
  const fd = must(wasi.open(path, 0, wasi.READ), path);
  const size = <i32>wasi.fstat(fd)!.size;
  const bytes = new Uint8Array(size);
  let filled = 0;
  while (filled < size) {
    const count = <i32>must(wasi.read(fd, bytes.subarray(filled)), path);
    if (count == 0) break;
    filled += count;
  }
  wasi.close(fd);
  return bytes.subarray(0, filled);
}

// Makes a file or empties it, and writes all of it.
export function spill(path: string, bytes: Uint8Array): i64 {
  const fd = wasi.open(path, wasi.EMPTIED, wasi.WRITE);
  if (fd < 0) return fd;
  const result = writeAll(fd, bytes);
  wasi.close(fd);
  return result;
}

export function writeAll(fd: i64, bytes: Uint8Array): i64 {
  let written = 0;
  while (written < bytes.length) {
    const count = wasi.write(fd, bytes.subarray(written));
    if (count < 0) return count;
    written += <i32>count;
  }
  return written;
}

export function content(path: string): string {
  return quoted(slurp(path));
}

export function kind(path: string, follow: bool): string {
  const status = wasi.stat(path, follow);
  if (!status) return errorName(wasi.lastError);
  if (wasi.isFile(status.kind)) return "file of " + status.size.toString() + " bytes";
  if (wasi.isLink(status.kind)) return "symbolic link of " + status.size.toString() + " bytes";
  return wasi.isDirectory(status.kind) ? "directory" : "other";
}

// In byte order, whatever the host's is.
export function sorted(entries: wasi.Entry[]): wasi.Entry[] {
  return entries.sort((one, two) => (one.name < two.name ? -1 : one.name > two.name ? 1 : 0));
}

export function listing(path: string): string {
  const entries = wasi.list(path);
  if (!entries) return errorName(wasi.lastError);
  if (entries.length == 0) return "nothing";
  const found = sorted(entries);
  const words: string[] = [];
  for (let i = 0; i < found.length; i++) {
    const kind = found[i].kind;
    const shown = wasi.isDirectory(kind) ? "directory " : wasi.isLink(kind) ? "link " : "file ";
    words.push(shown + found[i].name);
  }
  return words.join(", ");
}

export const SUM_START: u64 = 0xcbf29ce484222325;

// FNV-1a with 64 bits, carried on from `sum`.
export function sumOn(sum: u64, bytes: Uint8Array, length: i64 = bytes.length): u64 {
  for (let i = 0; i < <i32>length; i++) sum = (sum ^ <u64>unchecked(bytes[i])) * 0x100000001b3;
  return sum;
}
