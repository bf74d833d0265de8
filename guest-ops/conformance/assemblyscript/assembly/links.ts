// Symbolic links and second names.

import * as wasi from "./preview1";
import { bytesOf, content, kind, listing, must, quoted, say, sayNumber, spill, tell, writeAll, yes } from "./text";

export function links(): void {
  must(wasi.makeDirectory("links"), "links");
  toFiles();
  toNothing();
  toDirectories();
  secondNames();
}

function target(path: string): string {
  const buffer = new Uint8Array(256);
  return quoted(buffer, must(wasi.target(path, buffer), path));
}

function tellStat(what: string, path: string): void {
  tell(what, wasi.stat(path, true) ? 0 : wasi.lastError);
}

function toFiles(): void {
  tell("make", wasi.symlink("../input/sub/leaf.txt", "links/leaf"));
  tell("make over existing", wasi.symlink("elsewhere", "links/leaf"));
  say("target", target("links/leaf"));
  say("itself", kind("links/leaf", false));
  say("followed", kind("links/leaf", true));
  say("through it", content("links/leaf"));
  tell("rename it", wasi.rename("links/leaf", "links/moved"));
  say("target after renaming", target("links/moved"));
  must(wasi.symlink("moved", "links/second"), "links/second");
  say("through two", content("links/second"));
  tell("remove it", wasi.removeFile("links/second"));
  say("what it led to", kind("links/moved", false));
}

function toNothing(): void {
  must(wasi.symlink("nothing", "links/dangling"), "links/dangling");
  say("dangling, itself", kind("links/dangling", false));
  tellStat("dangling, followed", "links/dangling");
  tell("dangling, opened", wasi.open("links/dangling", 0, wasi.READ));
  tell("dangling, made exclusively", wasi.open("links/dangling", wasi.EXCLUSIVE, wasi.WRITE));
  tell("dangling, made", spill("links/dangling", bytesOf("made\n")));
  say("what was made", content("links/nothing"));
  must(wasi.symlink("loop-b", "links/loop-a"), "links/loop-a");
  must(wasi.symlink("loop-a", "links/loop-b"), "links/loop-b");
  tell("loop", wasi.open("links/loop-a", 0, wasi.READ));
  tell("below a loop", wasi.open("links/loop-a/x", 0, wasi.READ));
}

function toDirectories(): void {
  must(wasi.symlink("../input", "links/dir"), "links/dir");
  say("list through it", listing("links/dir"));
  say("read through it", content("links/dir/sub/leaf.txt"));
  tell("remove it as a directory", wasi.removeDirectory("links/dir"));
  tell("make a directory over it", wasi.makeDirectory("links/dir"));
  must(spill("links/dir/new", bytesOf("new\n")), "links/dir/new");
  say("made through it", content("input/new"));
  tell("remove through it", wasi.removeFile("links/dir/new"));
}

function secondNames(): void {
  must(spill("links/one", bytesOf("one\n")), "links/one");
  tell("second name", wasi.link("links/one", "links/two"));
  const one = wasi.stat("links/one", true)!;
  const two = wasi.stat("links/two", true)!;
  say("names", one.names.toString() + " and " + two.names.toString());
  say("the same file", yes(one.inode == two.inode));
  const fd = must(wasi.open("links/one", 0, wasi.WRITE, wasi.APPEND), "links/one");
  must(writeAll(fd, bytesOf("more\n")), "links/one");
  wasi.close(fd);
  say("written by one, read by the other", content("links/two"));
  tell("rename one over the other", wasi.rename("links/one", "links/two"));
  say("both are still there", yes(wasi.stat("links/one", true) != null && wasi.stat("links/two", true) != null));
  tell("remove one", wasi.removeFile("links/one"));
  sayNumber("names left", wasi.stat("links/two", true)!.names);
  say("content", content("links/two"));
  tell("second name of a directory", wasi.link("input", "links/three"));
  tell("second name over existing", wasi.link("links/two", "links/moved"));
  tell("second name of nothing", wasi.link("links/no", "links/four"));
}
