package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// library is what Go's own scheduler, timers and file helpers make of preview 1.
func library() {
	walk()
	times()
	temporary()
	concurrent()
	timers()
}

func walk() {
	var seen []string
	must(filepath.WalkDir("input", func(path string, entry fs.DirEntry, err error) error {
		seen = append(seen, path)
		return err
	}))
	say("walked", "%s", strings.Join(seen, " "))
	say("matching", "%s", strings.Join(got(filepath.Glob("input/*.*")), " "))
	say("current directory", "%s", got(os.Getwd()))
	must(os.CopyFS("copied", os.DirFS("input")))
	say("copied", "%s", listing("copied"))
	must(os.Chdir("copied/sub"))
	say("after changing directory", "%s", content("leaf.txt"))
	say("above it", "%s", listing(".."))
	must(os.Chdir("/"))
	file := got(os.Open("input/text.txt"))
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		say(fmt.Sprintf("line %d", number), "%s", lines.Text())
	}
	must(file.Close())
}

func times() {
	when := time.Unix(1_500_000_000, 123_456_789)
	must(os.Chtimes("copied/empty", when, when))
	say("time set", "%s", yes(got(os.Stat("copied/empty")).ModTime().Equal(when)))
	say("its time", "%s", got(os.Stat("copied/empty")).ModTime().UTC().Format(time.RFC3339Nano))
}

func temporary() {
	must(os.Mkdir("place", 0o755))
	file := got(os.CreateTemp("place", "made-*.txt"))
	say("its name", "%s", yes(strings.HasPrefix(file.Name(), "place/made-")))
	must(json.NewEncoder(file).Encode(map[string]int{"b": 2, "a": 1}))
	must(file.Close())
	say("encoded", "%s", content(file.Name()))
	must(os.Rename(file.Name(), "place/encoded.json"))
	say("left", "%s", listing("place"))
}

func concurrent() {
	var group sync.WaitGroup
	results := make([]int, 8)
	for index := range results {
		group.Go(func() {
			path := fmt.Sprintf("place/%d", index)
			must(os.WriteFile(path, []byte(strings.Repeat("x", index)), 0o644))
			time.Sleep(time.Duration(8-index) * time.Millisecond)
			results[index] = len(got(os.ReadFile(path)))
		})
	}
	group.Wait()
	say("written by eight", "%v", results)
}

func timers() {
	ticker, ticks := time.NewTicker(2*time.Millisecond), 0
	late := time.After(time.Hour)
	for ticks < 5 {
		select {
		case <-ticker.C:
			ticks++
		case <-late:
			ticks = -1
		}
	}
	ticker.Stop()
	say("ticks", "%d", ticks)
}
