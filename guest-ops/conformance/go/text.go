package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sort"
	"strings"
	"syscall"
)

var names = map[syscall.Errno]string{
	syscall.EACCES: "EACCES", syscall.EBADF: "EBADF", syscall.EBUSY: "EBUSY", syscall.EEXIST: "EEXIST",
	syscall.EFAULT: "EFAULT", syscall.EFBIG: "EFBIG", syscall.EILSEQ: "EILSEQ", syscall.EINVAL: "EINVAL",
	syscall.EIO: "EIO", syscall.EISDIR: "EISDIR", syscall.ELOOP: "ELOOP", syscall.EMFILE: "EMFILE",
	syscall.EMLINK: "EMLINK", syscall.ENAMETOOLONG: "ENAMETOOLONG", syscall.ENOENT: "ENOENT",
	syscall.ENOSPC: "ENOSPC", syscall.ENOSYS: "ENOSYS", syscall.ENOTDIR: "ENOTDIR",
	syscall.ENOTEMPTY: "ENOTEMPTY", syscall.ENOTSOCK: "ENOTSOCK", syscall.ENOTSUP: "ENOTSUP",
	syscall.EOVERFLOW: "EOVERFLOW", syscall.EPERM: "EPERM", syscall.EROFS: "EROFS", syscall.ESPIPE: "ESPIPE",
	syscall.EXDEV: "EXDEV", syscall.ENOTCAPABLE: "ENOTCAPABLE",
}

// say prints `WHAT: ` and then as Printf does, with a line end.
func say(what, format string, values ...any) {
	fmt.Printf("%s: %s\n", what, fmt.Sprintf(format, values...))
}

// tell prints `WHAT: ok` or the errno's name.
func tell(what string, err error) {
	say(what, "%s", name(err))
}

func name(err error) string {
	if err == nil {
		return "ok"
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err.Error()
	}
	if known, ok := names[errno]; ok {
		return known
	}
	return fmt.Sprintf("E%d", int(errno))
}

func yes(truth bool) string {
	if truth {
		return "yes"
	}
	return "no"
}

// must ends the guest: a step that prepares another has failed.
func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func got[T any](value T, err error) T {
	must(err)
	return value
}

// quoted shows printable ASCII as it is, the rest escaped.
func quoted(bytes []byte) string {
	var text strings.Builder
	text.WriteByte('"')
	for _, one := range bytes {
		switch {
		case one == '\n':
			text.WriteString("\\n")
		case one == 0:
			text.WriteString("\\0")
		case one >= ' ' && one <= '~':
			text.WriteByte(one)
		default:
			fmt.Fprintf(&text, "\\x%02x", one)
		}
	}
	text.WriteByte('"')
	return text.String()
}

func content(path string) string {
	return quoted(got(os.ReadFile(path)))
}

func kind(info fs.FileInfo) string {
	switch {
	case info.Mode().IsRegular():
		return fmt.Sprintf("file of %d bytes", info.Size())
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Sprintf("symbolic link of %d bytes", info.Size())
	case info.IsDir():
		return "directory"
	}
	return "other"
}

// listing is the names in a directory in byte order, each with its kind.
func listing(path string) string {
	directory := got(os.Open(path))
	defer directory.Close()
	entries := got(directory.ReadDir(-1))
	sort.Slice(entries, func(i, j int) bool { return entries[i].Name() < entries[j].Name() })
	var words []string
	for _, entry := range entries {
		kind := "file"
		if entry.IsDir() {
			kind = "directory"
		} else if entry.Type()&fs.ModeSymlink != 0 {
			kind = "link"
		}
		words = append(words, kind+" "+entry.Name())
	}
	if words == nil {
		return "nothing"
	}
	return strings.Join(words, ", ")
}

const sumStart uint64 = 0xcbf29ce484222325

// sumOn is FNV-1a with 64 bits, carried on from sum.
func sumOn(sum uint64, bytes []byte) uint64 {
	for _, one := range bytes {
		sum = (sum ^ uint64(one)) * 0x100000001b3
	}
	return sum
}
