package main

import (
	"io"
	"os"
)

// files makes, changes, renames and removes one file after the other.
func files() {
	must(os.Mkdir("files", 0o755))
	change("files/a")
	sparse("files/sparse")
	renameFile()
	unlinkWhileOpen("files/open")
	copyFile()
}

func change(path string) {
	tell("create", os.WriteFile(path, []byte("first\n"), 0o644))
	_, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	tell("create again, exclusive", err)
	say("content", "%s", content(path))
	file := got(os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0))
	got(file.WriteString("second\n"))
	must(file.Close())
	say("append", "%s", content(path))

	file = got(os.OpenFile(path, os.O_RDWR, 0))
	must(file.Truncate(3))
	say("truncate to 3", "%s", content(path))
	must(file.Truncate(6))
	say("extend to 6", "%s", content(path))
	got(file.Seek(10, io.SeekStart))
	got(file.WriteString("end"))
	say("write at 10 after seeking", "%s", content(path))
	say("position", "%d", got(file.Seek(0, io.SeekCurrent)))
	say("size", "%d", got(file.Stat()).Size())
	buffer := make([]byte, 3)
	say("read at 10", "%s", quoted(buffer[:got(file.ReadAt(buffer, 10))]))
	got(file.WriteAt([]byte("F"), 0))
	say("write at 0", "%s", content(path))
	say("position is kept", "%s", yes(got(file.Seek(0, io.SeekCurrent)) == 13))
	say("read at the end", "%d bytes", len(got(io.ReadAll(file))))
	must(file.Close())

	file = got(os.OpenFile("input/text.txt", os.O_WRONLY, 0))
	got(file.Seek(4, io.SeekStart))
	got(file.WriteString("TWO"))
	must(file.Close())
	say("overwrite in the middle", "%s", content("input/text.txt"))
}

func sparse(path string) {
	file := got(os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644))
	got(file.Seek(1<<20, io.SeekStart))
	got(file.WriteString("x"))
	must(file.Close())
	bytes := got(os.ReadFile(path))
	say("sparse", "%d bytes, sum %016x", len(bytes), sumOn(sumStart, bytes))
}

func renameFile() {
	must(os.WriteFile("files/b", []byte("old"), 0o644))
	tell("rename over existing", os.Rename("files/a", "files/b"))
	say("replaced", "%s", content("files/b"))
	_, err := os.Open("files/a")
	tell("old name", err)
	tell("rename onto itself", os.Rename("files/b", "files/b"))
	say("still there", "%s", content("files/b"))
}

func unlinkWhileOpen(path string) {
	must(os.WriteFile(path, []byte("going"), 0o644))
	file := got(os.OpenFile(path, os.O_RDWR, 0))
	defer file.Close()
	tell("unlink while open", os.Remove(path))
	_, err := os.Open(path)
	tell("its name", err)
	got(file.Seek(0, io.SeekEnd))
	got(file.WriteString(", gone"))
	got(file.Seek(0, io.SeekStart))
	say("still readable and writable", "%s", quoted(got(io.ReadAll(file))))
	must(os.WriteFile(path, []byte("new"), 0o644))
	say("a new file of that name", "%s", content(path))
	say("the old one", "%d bytes", got(file.Stat()).Size())
}

func copyFile() {
	from, to := got(os.Open("input/bytes.bin")), got(os.Create("files/copy"))
	count := got(io.Copy(to, from))
	must(from.Close())
	must(to.Close())
	bytes := got(os.ReadFile("files/copy"))
	say("copy", "%d bytes, sum %016x", count, sumOn(sumStart, bytes))
	must(os.WriteFile("files/other", bytes, 0o644))
	tell("remove", os.Remove("files/other"))
	tell("remove again", os.Remove("files/other"))
}
