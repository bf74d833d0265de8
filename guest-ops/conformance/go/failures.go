package main

import (
	"io"
	"os"
	"strings"
	"syscall"
)

// failures shows what fails, and how. The system's own calls, where the library looks first what is there.
func failures() {
	paths()
	removing()
	descriptors()
}

const create = os.O_WRONLY | os.O_CREATE | os.O_TRUNC

func open(path string, flags int) error {
	file, err := os.OpenFile(path, flags, 0o644)
	if err == nil {
		file.Close()
	}
	return err
}

func list(path string) error {
	_, err := os.ReadDir(path)
	return err
}

func readlink(path string) error {
	_, err := syscall.Readlink(path, make([]byte, 16))
	return err
}

func paths() {
	tell("open nothing", open("no", os.O_RDONLY))
	tell("open below nothing", open("no/such", os.O_RDONLY))
	tell("open below a file", open("input/text.txt/x", os.O_RDONLY))
	tell("open a file with a slash behind", open("input/text.txt/", os.O_RDONLY))
	tell("open a directory for writing", open("input", os.O_WRONLY))
	tell("create where a directory is", open("input", create))
	tell("create below nothing", open("no/such", create))
	tell("create with a slash behind", open("new/", create))
	tell("a name of 300 bytes", open(strings.Repeat("n", 300), create))
	tell("list nothing", list("no"))
	tell("list a file", list("input/text.txt"))
	tell("make a directory over a file", os.Mkdir("input/text.txt", 0o755))
	tell("make a directory over a directory", os.Mkdir("input", 0o755))
	_, err := os.Stat("no")
	tell("stat nothing", err)
	tell("target of a file", readlink("input/text.txt"))
	tell("target of a directory", readlink("input"))
	tell("target of nothing", readlink("no"))
	tell("link over a directory", os.Symlink("x", "input"))
	tell("link below nothing", os.Symlink("x", "no/such"))
}

func removing() {
	tell("remove nothing", syscall.Unlink("no"))
	tell("remove a directory as a file", syscall.Unlink("input/sub"))
	tell("remove a file as a directory", syscall.Rmdir("input/text.txt"))
	tell("remove a directory that is not there", syscall.Rmdir("no"))
	tell("remove a full directory", syscall.Rmdir("input/sub"))
	tell("rename nothing", syscall.Rename("no", "yes"))
	tell("rename to below nothing", syscall.Rename("input/empty", "no/such"))
	tell("rename to below a file", syscall.Rename("input/empty", "input/text.txt/x"))
	tell("rename a file to a name with a slash behind", syscall.Rename("input/empty", "input/new/"))
}

func descriptors() {
	reading, writing := got(os.Open("input/text.txt")), got(os.OpenFile("written", create, 0o644))
	_, err := reading.WriteString("x")
	tell("write what is open for reading", err)
	_, err = writing.Read(make([]byte, 4))
	tell("read what is open for writing", err)
	_, err = reading.Seek(-1, io.SeekCurrent)
	tell("seek before the start", err)
	_, err = reading.Seek(1<<40, io.SeekStart)
	tell("seek far behind the end", err)
	_, err = reading.Read(make([]byte, 4))
	if err == io.EOF {
		err = nil
	}
	tell("read there", err)
}
