package main

import (
	"bytes"
	"crypto/rand"
	"os"
	"time"
)

func clocks() {
	before := time.Now()
	say("the real time is after 2020", "%s", yes(before.Year() >= 2020))
	first := time.Now()
	last, back := first, false
	for range 1000 {
		now := time.Now()
		back = back || now.Sub(last) < 0
		last = now
	}
	say("the monotonic time goes back", "%s", yes(back))
	say("the monotonic time goes on", "%s", yes(last.Sub(first) > 0))
	start := time.Now()
	time.Sleep(20 * time.Millisecond)
	say("a sleep of 20 ms takes that long", "%s", yes(time.Since(start) >= 20*time.Millisecond))
	must(os.WriteFile("stamped", []byte("now\n"), 0o644))
	made := got(os.Stat("stamped")).ModTime()
	// A disk may round a file's time down.
	now := !made.Before(before.Add(-2*time.Second)) && !made.After(time.Now())
	say("a new file's time is now", "%s", yes(now))
}

func randomBytes() {
	one, two := make([]byte, 4096), make([]byte, 4096)
	got(rand.Read(one))
	got(rand.Read(two))
	distinct := map[byte]bool{}
	for _, value := range one {
		distinct[value] = true
	}
	// Of 4096 random bytes fewer than 200 different ones are as likely as none.
	say("all kinds of bytes", "%s", yes(len(distinct) > 200))
	say("the end is filled", "%s", yes(!bytes.Equal(one[4064:], make([]byte, 32))))
	say("two draws differ", "%s", yes(!bytes.Equal(one, two)))
}
