// Directories: made, listed, renamed, removed.

import * as wasi from "./preview1";
import { bytesOf, content, listing, must, say, spill, tell } from "./text";

export function directories(): void {
  make();
  rename();
  tell("remove", wasi.removeDirectory("dirs/empty"));
  tell("remove again", wasi.removeDirectory("dirs/empty"));
  must(wasi.removeFile("dirs/full/inner/leaf"), "leaf");
  must(wasi.removeDirectory("dirs/full/inner"), "inner");
  tell("remove with all in it", wasi.removeDirectory("dirs/full"));
  say("left", listing("dirs"));
}

function make(): void {
  tell("make", wasi.makeDirectory("dirs"));
  tell("make again", wasi.makeDirectory("dirs"));
  tell("make below nothing", wasi.makeDirectory("dirs/no/such"));
  must(spill("dirs/file", bytesOf("in a file\n")), "dirs/file");
  tell("make below a file", wasi.makeDirectory("dirs/file/x"));
  must(wasi.makeDirectory("dirs/a"), "dirs/a");
  must(wasi.makeDirectory("dirs/Z"), "dirs/Z");
  must(spill("dirs/a/below", bytesOf("below\n")), "dirs/a/below");
  say("list", listing("dirs"));
  say("list input", listing("input"));
  tell("remove non-empty", wasi.removeDirectory("dirs/a"));
  must(wasi.makeDirectory("dirs/empty"), "dirs/empty");
  say("list empty", listing("dirs/empty"));
}

function rename(): void {
  tell("rename", wasi.rename("dirs/a", "dirs/b"));
  say("list after renaming", listing("dirs"));
  say("what is in it", content("dirs/b/below"));
  tell("rename over an empty directory", wasi.rename("dirs/b", "dirs/empty"));
  say("list after replacing", listing("dirs"));
  must(wasi.makeDirectory("dirs/full"), "dirs/full");
  must(wasi.makeDirectory("dirs/full/inner"), "dirs/full/inner");
  must(spill("dirs/full/inner/leaf", bytesOf("leaf\n")), "leaf");
  tell("rename over a non-empty directory", wasi.rename("dirs/Z", "dirs/full"));
  tell("rename into itself", wasi.rename("dirs/full", "dirs/full/inner/x"));
  tell("rename a file over a directory", wasi.rename("dirs/file", "dirs/full"));
  tell("rename a directory over a file", wasi.rename("dirs/full", "dirs/file"));
  tell("rename a directory up", wasi.rename("dirs/full/inner", "dirs/inner"));
  tell("rename it down again", wasi.rename("dirs/inner", "dirs/full/inner"));
  tell("move what was in a directory", wasi.rename("dirs/empty/below", "dirs/below"));
}
