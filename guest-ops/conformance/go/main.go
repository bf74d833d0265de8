// Prints what a preview 1 host does: conform-go SCENARIO [ARGUMENT…].
package main

import (
	"fmt"
	"os"
	"strconv"
)

var scenarios = map[string]func(){
	"arguments":   arguments,
	"stdin":       standardInput,
	"files":       files,
	"directories": directories,
	"links":       links,
	"clocks":      clocks,
	"random":      randomBytes,
	"errors":      failures,
	"library":     library,
}

var counted = map[string]func(count int){
	"output": output,
	"exit":   exit,
	"large":  large,
	"deep":   deep,
	"many":   many,
}

func main() {
	words := append(os.Args[1:], "", "")
	if run, known := scenarios[words[0]]; known {
		run()
		return
	}
	count, err := strconv.Atoi(words[1])
	run, known := counted[words[0]]
	if err != nil || !known {
		fmt.Fprintf(os.Stderr, "unknown scenario '%s'\n", words[0])
		os.Exit(2)
	}
	run(count)
}
