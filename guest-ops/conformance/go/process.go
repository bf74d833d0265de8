package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"sort"
)

func arguments() {
	for index, word := range os.Args[1:] {
		fmt.Printf("argument %d: %d bytes, %s\n", index+1, len(word), word)
	}
	variables := os.Environ()
	sort.Strings(variables)
	for _, variable := range variables {
		fmt.Printf("variable %s\n", variable)
	}
}

// standardInput reads all of it, in pieces of no round size.
func standardInput() {
	buffer := make([]byte, 10_007)
	sum, length := sumStart, 0
	for {
		count, err := os.Stdin.Read(buffer)
		sum = sumOn(sum, buffer[:count])
		length += count
		if err == io.EOF {
			break
		}
		must(err)
	}
	say("standard input", "%d bytes, sum %016x", length, sum)
}

func output(lines int) {
	out := bufio.NewWriter(os.Stdout)
	for line := 1; line <= lines; line++ {
		fmt.Fprintf(out, "line %d\n", line)
		if line%10 == 0 {
			fmt.Fprintf(os.Stderr, "error line %d\n", line)
		}
	}
	must(out.Flush())
}

func exit(code int) {
	say("leaving with", "%d", code)
	os.Exit(code)
}
