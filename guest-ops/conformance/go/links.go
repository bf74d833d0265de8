package main

import (
	"os"
	"syscall"
)

func links() {
	must(os.Mkdir("links", 0o755))
	toFiles()
	toNothing()
	toDirectories()
	secondNames()
}

func target(path string) string {
	return quoted([]byte(got(os.Readlink(path))))
}

func toFiles() {
	tell("make", os.Symlink("../input/sub/leaf.txt", "links/leaf"))
	tell("make over existing", os.Symlink("elsewhere", "links/leaf"))
	say("target", "%s", target("links/leaf"))
	say("itself", "%s", kind(got(os.Lstat("links/leaf"))))
	say("followed", "%s", kind(got(os.Stat("links/leaf"))))
	say("through it", "%s", content("links/leaf"))
	tell("rename it", os.Rename("links/leaf", "links/moved"))
	say("target after renaming", "%s", target("links/moved"))
	must(os.Symlink("moved", "links/second"))
	say("through two", "%s", content("links/second"))
	tell("remove it", os.Remove("links/second"))
	say("what it led to", "%s", kind(got(os.Lstat("links/moved"))))
}

func toNothing() {
	must(os.Symlink("nothing", "links/dangling"))
	say("dangling, itself", "%s", kind(got(os.Lstat("links/dangling"))))
	_, err := os.Stat("links/dangling")
	tell("dangling, followed", err)
	_, err = os.Open("links/dangling")
	tell("dangling, opened", err)
	_, err = os.OpenFile("links/dangling", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	tell("dangling, made exclusively", err)
	tell("dangling, made", os.WriteFile("links/dangling", []byte("made\n"), 0o644))
	say("what was made", "%s", content("links/nothing"))
	must(os.Symlink("loop-b", "links/loop-a"))
	must(os.Symlink("loop-a", "links/loop-b"))
	_, err = os.Open("links/loop-a")
	tell("loop", err)
	_, err = os.Open("links/loop-a/x")
	tell("below a loop", err)
}

func toDirectories() {
	must(os.Symlink("../input", "links/dir"))
	say("list through it", "%s", listing("links/dir"))
	say("read through it", "%s", content("links/dir/sub/leaf.txt"))
	tell("remove it as a directory", syscall.Rmdir("links/dir"))
	tell("make a directory over it", os.Mkdir("links/dir", 0o755))
	must(os.WriteFile("links/dir/new", []byte("new\n"), 0o644))
	say("made through it", "%s", content("input/new"))
	tell("remove through it", os.Remove("links/dir/new"))
}

func namesOf(path string) uint64 {
	return got(os.Stat(path)).Sys().(*syscall.Stat_t).Nlink
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func secondNames() {
	must(os.WriteFile("links/one", []byte("one\n"), 0o644))
	tell("second name", os.Link("links/one", "links/two"))
	say("names", "%d and %d", namesOf("links/one"), namesOf("links/two"))
	say("the same file", "%s", yes(os.SameFile(got(os.Stat("links/one")), got(os.Stat("links/two")))))
	file := got(os.OpenFile("links/one", os.O_WRONLY|os.O_APPEND, 0))
	got(file.WriteString("more\n"))
	must(file.Close())
	say("written by one, read by the other", "%s", content("links/two"))
	tell("rename one over the other", os.Rename("links/one", "links/two"))
	say("both are still there", "%s", yes(exists("links/one") && exists("links/two")))
	tell("remove one", os.Remove("links/one"))
	say("names left", "%d", namesOf("links/two"))
	say("content", "%s", content("links/two"))
	tell("second name of a directory", os.Link("input", "links/three"))
	tell("second name over existing", os.Link("links/two", "links/moved"))
	tell("second name of nothing", os.Link("links/no", "links/four"))
}
