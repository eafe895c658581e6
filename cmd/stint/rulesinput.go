package main

import (
	"fmt"
	"io"

	"github.com/stintdev/stint/rule"
)

// standardInput stands for rules that are piped in.
const standardInput = "-"

// mostPiped bounds what is read of standard input, in bytes: over what a rule
// file may have, so that one is refused and not cut.
const mostPiped = 32 << 20

// readRules reads a file, a folder of them, or standard input.
func readRules(path string, in io.Reader) ([]rule.File, error) {
	if path != standardInput {
		return rule.ReadFiles(path)
	}
	data, err := io.ReadAll(io.LimitReader(in, mostPiped))
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return []rule.File{{Name: standardInput, Data: data}}, nil
}

// loadRules is [readRules] for one who wants to know what they say.
func loadRules(path string, in io.Reader) (*rule.Set, error) {
	if path != standardInput {
		return rule.Load(path)
	}
	files, err := readRules(path, in)
	if err != nil {
		return nil, err
	}
	return rule.Parse(files...)
}
