// One file after the other: made, changed, renamed, removed.

import * as wasi from "./preview1";
import { bytesOf, content, hex, must, quoted, say, sayNumber, slurp, spill, SUM_START, sumOn, tell, writeAll, yes } from "./text";

export function files(): void {
  must(wasi.makeDirectory("files"), "files");
  change("files/a");
  sparse("files/sparse");
  rename();
  unlinkWhileOpen("files/open");
  copy();
}

function change(path: string): void {
  tell("create", spill(path, bytesOf("first\n")));
  tell("create again, exclusive", wasi.open(path, wasi.EXCLUSIVE, wasi.WRITE));
  say("content", content(path));
  let fd = must(wasi.open(path, 0, wasi.WRITE, wasi.APPEND), path);
  must(writeAll(fd, bytesOf("second\n")), path);
  wasi.close(fd);
  say("append", content(path));

  fd = must(wasi.open(path, 0, wasi.READ | wasi.WRITE), path);
  must(wasi.setSize(fd, 3), path);
  say("truncate to 3", content(path));
  must(wasi.setSize(fd, 6), path);
  say("extend to 6", content(path));
  must(wasi.seek(fd, 10, 0), path);
  must(writeAll(fd, bytesOf("end")), path);
  say("write at 10 after seeking", content(path));
  sayNumber("position", wasi.seek(fd, 0, 1));
  sayNumber("size", wasi.fstat(fd)!.size);
  const buffer = new Uint8Array(16);
  say("read at 10", quoted(buffer, must(wasi.readAt(fd, buffer, 10), path)));
  must(wasi.writeAt(fd, bytesOf("F"), 0), path);
  say("write at 0", content(path));
  say("position is kept", yes(wasi.seek(fd, 0, 1) == 13));
  say("read at the end", wasi.read(fd, buffer).toString() + " bytes");
  wasi.close(fd);

  fd = must(wasi.open("input/text.txt", 0, wasi.WRITE), "input/text.txt");
  must(wasi.seek(fd, 4, 0), path);
  must(writeAll(fd, bytesOf("TWO")), path);
  wasi.close(fd);
  say("overwrite in the middle", content("input/text.txt"));
}

function sparse(path: string): void {
  const fd = must(wasi.open(path, wasi.EXCLUSIVE, wasi.WRITE), path);
  must(wasi.seek(fd, 1 << 20, 0), path);
  must(writeAll(fd, bytesOf("x")), path);
  wasi.close(fd);
  const bytes = slurp(path);
  say("sparse", bytes.length.toString() + " bytes, sum " + hex(sumOn(SUM_START, bytes)));
}

function rename(): void {
  must(spill("files/b", bytesOf("old")), "files/b");
  tell("rename over existing", wasi.rename("files/a", "files/b"));
  say("replaced", content("files/b"));
  tell("old name", wasi.open("files/a", 0, wasi.READ));
  tell("rename onto itself", wasi.rename("files/b", "files/b"));
  say("still there", content("files/b"));
}

function unlinkWhileOpen(path: string): void {
  must(spill(path, bytesOf("going")), path);
  const fd = must(wasi.open(path, 0, wasi.READ | wasi.WRITE), path);
  tell("unlink while open", wasi.removeFile(path));
  tell("its name", wasi.open(path, 0, wasi.READ));
  must(wasi.seek(fd, 0, 2), path);
  must(writeAll(fd, bytesOf(", gone")), path);
  must(wasi.seek(fd, 0, 0), path);
  const buffer = new Uint8Array(32);
  say("still readable and writable", quoted(buffer, must(wasi.read(fd, buffer), path)));
  must(spill(path, bytesOf("new")), path);
  say("a new file of that name", content(path));
  say("the old one", wasi.fstat(fd)!.size.toString() + " bytes");
  wasi.close(fd);
}

function copy(): void {
  must(spill("files/copy", slurp("input/bytes.bin")), "files/copy");
  const bytes = slurp("files/copy");
  say("copy", bytes.length.toString() + " bytes, sum " + hex(sumOn(SUM_START, bytes)));
  must(spill("files/other", bytes), "files/other");
  tell("remove", wasi.removeFile("files/other"));
  tell("remove again", wasi.removeFile("files/other"));
}
