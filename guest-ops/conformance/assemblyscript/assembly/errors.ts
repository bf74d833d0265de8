// What fails, and how.

import * as wasi from "./preview1";
import { must, tell } from "./text";

export function errors(): void {
  paths();
  removing();
  descriptors();
}

function list(path: string): i64 {
  return wasi.list(path) ? 0 : wasi.lastError;
}

function stat(path: string): i64 {
  return wasi.stat(path, true) ? 0 : wasi.lastError;
}

function paths(): void {
  const buffer = new Uint8Array(16);
  tell("open nothing", wasi.open("no", 0, wasi.READ));
  tell("open below nothing", wasi.open("no/such", 0, wasi.READ));
  tell("open below a file", wasi.open("input/text.txt/x", 0, wasi.READ));
  tell("open a file with a slash behind", wasi.open("input/text.txt/", 0, wasi.READ));
  tell("open a directory for writing", wasi.open("input", 0, wasi.WRITE));
  tell("create where a directory is", wasi.open("input", wasi.EMPTIED, wasi.WRITE));
  tell("create below nothing", wasi.open("no/such", wasi.EMPTIED, wasi.WRITE));
  tell("create with a slash behind", wasi.open("new/", wasi.EMPTIED, wasi.WRITE));
  tell("a name of 300 bytes", wasi.open("n".repeat(300), wasi.EMPTIED, wasi.WRITE));
  tell("list nothing", list("no"));
  tell("list a file", list("input/text.txt"));
  tell("make a directory over a file", wasi.makeDirectory("input/text.txt"));
  tell("make a directory over a directory", wasi.makeDirectory("input"));
  tell("stat nothing", stat("no"));
  tell("target of a file", wasi.target("input/text.txt", buffer));
  tell("target of a directory", wasi.target("input", buffer));
  tell("target of nothing", wasi.target("no", buffer));
  tell("link over a directory", wasi.symlink("x", "input"));
  tell("link below nothing", wasi.symlink("x", "no/such"));
}

function removing(): void {
  tell("remove nothing", wasi.removeFile("no"));
  tell("remove a directory as a file", wasi.removeFile("input/sub"));
  tell("remove a file as a directory", wasi.removeDirectory("input/text.txt"));
  tell("remove a directory that is not there", wasi.removeDirectory("no"));
  tell("remove a full directory", wasi.removeDirectory("input/sub"));
  tell("rename nothing", wasi.rename("no", "yes"));
  tell("rename to below nothing", wasi.rename("input/empty", "no/such"));
  tell("rename to below a file", wasi.rename("input/empty", "input/text.txt/x"));
  tell("rename a file to a name with a slash behind", wasi.rename("input/empty", "input/new/"));
}

function descriptors(): void {
  const reading = must(wasi.open("input/text.txt", 0, wasi.READ), "input/text.txt");
  const writing = must(wasi.open("written", wasi.EMPTIED, wasi.WRITE), "written");
  const buffer = new Uint8Array(4);
  tell("write what is open for reading", wasi.write(reading, buffer, 1));
  tell("read what is open for writing", wasi.read(writing, buffer));
  tell("seek before the start", wasi.seek(reading, -1, 1));
  tell("seek far behind the end", wasi.seek(reading, 1 << 40, 0));
  tell("read there", wasi.read(reading, buffer));
}

// Ways out of the tree, for languages that pass paths on as they are.
export function escapes(): void {
  tell("the directory above", wasi.open("..", 0, wasi.READ));
  tell("a file above", wasi.open("../x", 0, wasi.READ));
  tell("above by way of a directory", wasi.open("input/../../x", 0, wasi.READ));
  tell("above for a moment", wasi.open("../input/text.txt", 0, wasi.READ));
  tell("make above", wasi.makeDirectory("../x"));
  tell("remove above", wasi.removeFile("../x"));
  tell("rename to above", wasi.rename("input/text.txt", "../x"));
  must(wasi.symlink("..", "up"), "up");
  tell("through a link to above", wasi.open("up/x", 0, wasi.READ));
  tell("a link to above itself", wasi.open("up", 0, wasi.READ));
  must(wasi.symlink("../../etc/passwd", "out"), "out");
  tell("through a link out", wasi.open("out", 0, wasi.READ));
  tell("make through a link out", wasi.open("out", wasi.EMPTIED, wasi.WRITE));
  tell("a link with an absolute target", wasi.symlink("/etc", "absolute"));
  tell("the root's own dots", stat("."));
}
