package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
)

const block = 64 << 10

// fill makes bytes that no compressor makes smaller: a linear congruential generator's words.
func fill(bytes []byte, state *uint64) {
	for at := 0; at < len(bytes); at += 8 {
		*state = *state*6364136223846793005 + 1442695040888963407
		binary.LittleEndian.PutUint64(bytes[at:], *state)
	}
}

func large(mib int) {
	blocks := mib << 20 / block
	piece, middle := make([]byte, block), []byte(nil)
	state, sum := uint64(1), sumStart
	file := got(os.Create("large"))
	for index := range blocks {
		fill(piece, &state)
		got(file.Write(piece))
		if index == blocks/2 {
			middle = bytes.Clone(piece)
		}
	}
	must(file.Close())
	say("size", "%d", got(os.Stat("large")).Size())
	file = got(os.Open("large"))
	for {
		if _, err := io.ReadFull(file, piece); err != nil {
			break
		}
		sum = sumOn(sum, piece)
	}
	say("sum", "%016x", sum)
	got(file.ReadAt(piece, int64(blocks/2)*block))
	say("the middle is what was written", "%s", yes(bytes.Equal(piece, middle)))
	must(file.Close())
}

func deep(levels int) {
	steps := strings.Repeat("/n", levels)
	must(os.MkdirAll("deep"+steps, 0o755))
	leaf := "deep" + steps + "/leaf"
	must(os.WriteFile(leaf, []byte("leaf\n"), 0o644))
	say("the bottom", "%s", content(leaf))
	below, found := "deep/n", 0
	for ; exists(below); below += "/n" {
		found++
	}
	say("levels", "%d", found)
	say("up and down again", "%s", yes(got(os.Stat("deep/n/../../deep/n")).IsDir()))
	must(os.MkdirAll("gone"+steps, 0o755))
	tell("remove all", os.RemoveAll("gone"))
	say("gone", "%s", yes(!exists("gone")))
}

func many(count int) {
	must(os.Mkdir("many", 0o755))
	path := func(number int) string { return fmt.Sprintf("many/%06d", number) }
	for number := range count {
		file := got(os.OpenFile(path(number), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644))
		got(fmt.Fprintf(file, "file %d\n", number))
		must(file.Close())
	}
	directory := got(os.Open("many"))
	names := got(directory.Readdirnames(-1))
	must(directory.Close())
	sort.Strings(names)
	say("listed", "%d, sum %016x", len(names), sumOn(sumStart, []byte(strings.Join(names, ""))))
	sum := sumStart
	for _, name := range names {
		sum = sumOn(sum, got(os.ReadFile("many/"+name)))
	}
	say("read", "sum %016x", sum)
	for number := range count {
		if number%1000 != 0 {
			must(os.Remove(path(number)))
		}
	}
	say("left", "%d", len(got(os.ReadDir("many"))))
}
