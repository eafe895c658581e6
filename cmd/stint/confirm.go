package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
)

// confirm shows a dangerous change and asks for it. It fails unless the answer
// is yes. All of it is beside the result, on standard error.
func (c *wholeChange) confirm(d *adminclient.Diff, o *adminclient.Outcome, dangers []string) error {
	if d != nil {
		_ = printDiff(c.errs, d) // whether it was seen, the answer tells
	}
	_ = printImpact(c.errs, o.Impact)
	_, _ = fmt.Fprintln(c.errs, "This is dangerous: "+cell(strings.Join(dangers, "; "))+".")
	if !isTerminal(c.in) {
		return errors.New("not published: it is dangerous, and there is no terminal to ask at (look at the above, then say --yes)")
	}
	_, _ = fmt.Fprint(c.errs, "Publish it? [y/N] ")
	line, err := bufio.NewReader(io.LimitReader(c.in, 1000)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("not published: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return errors.New("not published")
}
