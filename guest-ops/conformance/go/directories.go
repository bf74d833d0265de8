package main

import (
	"os"
	"syscall"
)

// directories makes, lists, renames and removes them. Renaming is the system's own: os.Rename looks first whether a
// directory is in the way.
func directories() {
	makeThem()
	renameThem()
	tell("remove", syscall.Rmdir("dirs/empty"))
	tell("remove again", syscall.Rmdir("dirs/empty"))
	tell("remove with all in it", os.RemoveAll("dirs/full"))
	say("left", "%s", listing("dirs"))
}

func makeThem() {
	tell("make", os.Mkdir("dirs", 0o755))
	tell("make again", os.Mkdir("dirs", 0o755))
	tell("make below nothing", os.Mkdir("dirs/no/such", 0o755))
	must(os.WriteFile("dirs/file", []byte("in a file\n"), 0o644))
	tell("make below a file", os.Mkdir("dirs/file/x", 0o755))
	must(os.Mkdir("dirs/a", 0o755))
	must(os.Mkdir("dirs/Z", 0o755))
	must(os.WriteFile("dirs/a/below", []byte("below\n"), 0o644))
	say("list", "%s", listing("dirs"))
	say("list input", "%s", listing("input"))
	tell("remove non-empty", syscall.Rmdir("dirs/a"))
	must(os.Mkdir("dirs/empty", 0o755))
	say("list empty", "%s", listing("dirs/empty"))
}

func renameThem() {
	tell("rename", os.Rename("dirs/a", "dirs/b"))
	say("list after renaming", "%s", listing("dirs"))
	say("what is in it", "%s", content("dirs/b/below"))
	tell("rename over an empty directory", syscall.Rename("dirs/b", "dirs/empty"))
	say("list after replacing", "%s", listing("dirs"))
	must(os.MkdirAll("dirs/full/inner", 0o755))
	must(os.WriteFile("dirs/full/inner/leaf", []byte("leaf\n"), 0o644))
	tell("rename over a non-empty directory", syscall.Rename("dirs/Z", "dirs/full"))
	tell("rename into itself", syscall.Rename("dirs/full", "dirs/full/inner/x"))
	tell("rename a file over a directory", syscall.Rename("dirs/file", "dirs/full"))
	tell("rename a directory over a file", syscall.Rename("dirs/full", "dirs/file"))
	tell("rename a directory up", os.Rename("dirs/full/inner", "dirs/inner"))
	tell("rename it down again", os.Rename("dirs/inner", "dirs/full/inner"))
	tell("move what was in a directory", os.Rename("dirs/empty/below", "dirs/below"))
}
