package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// apart does work in a process of its own, in which nobody has used memory
// before, and reads its answer.
func apart(work string, keys int, answer any) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.CommandContext(context.Background(), self, "-here", work, "-keys", strconv.Itoa(keys))
	var problem strings.Builder
	child.Stderr = &problem
	out, err := child.Output()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", work, err, problem.String())
	}
	return json.Unmarshal(out, answer)
}

// here is what the new process does: "flood", "fill:" and the name of a
// contestant, or serving.
func here(work string, keys int, out io.Writer) error {
	switch work {
	case emptyWork:
		return serveEmpty()
	case applicationWork:
		return serveApplication()
	}
	answer, err := doHere(work, keys)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(answer)
}

func doHere(work string, keys int) (any, error) {
	if work == "flood" {
		return pourAll(keys)
	}
	name, found := strings.CutPrefix(work, "fill:")
	if !found {
		return nil, fmt.Errorf("-here: %q is neither flood nor fill:NAME nor "+emptyWork+" nor "+applicationWork, work)
	}
	c, err := named(name)
	if err != nil {
		return nil, err
	}
	return fillOne(c, keys)
}
