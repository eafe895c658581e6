package main

import (
	"errors"
	"strings"
)

// origins says where each setting was made: file:line:column, an environment
// variable, or "" for a flag on the command line.
type origins map[string]string

// place puts before a mistake where its setting was made. A mistake in what a
// setting says begins with the name of its flag.
func (o origins) place(err error) error {
	if _, mistaken := errors.AsType[usageError](err); !mistaken {
		return err
	}
	text := err.Error()
	end := strings.IndexAny(text, ": ")
	if end < 0 || o[text[:end]] == "" {
		return err
	}
	return usagef("%s: %w", o[text[:end]], err)
}
