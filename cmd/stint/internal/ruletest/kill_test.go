package ruletest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"log/slog"

	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// The test starts itself as the process to kill and configures it by these
// variables.
const (
	victimKind   = "STINT_RULETEST_VICTIM"
	victimFolder = "STINT_RULETEST_FOLDER"
)

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// victims are the ways in which a process writes versions.
var victims = []string{"file", "folder", "copy"}

// targetOf opens the source or folder that a victim writes to.
func targetOf(kind, dir string, onSet func(*rule.Set, ruleset.Version)) *ruleset.Manager {
	o := ruleset.Options{OnSet: onSet}
	path := filepath.Join(dir, "rules")
	switch kind {
	case "file":
		path = filepath.Join(path, "a.yaml")
		fallthrough
	case "folder":
		o.Source, o.Local = ruleset.NewFiles(path, filepath.Join(dir, "history"), slog.New(slog.DiscardHandler)), true
	default:
		o.Source, o.CopyDir = &ruleset.Memory{}, filepath.Join(dir, "copy")
	}
	return ruleset.NewManager(o)
}

// victimFiles returns files that take a while to write and that each name their
// version. A folder has two.
func victimFiles(kind string, n int) []rule.File {
	a := []byte(manyRules(n, 300))
	if kind != "folder" {
		return []rule.File{{Name: "a.yaml", Data: a}}
	}
	return []rule.File{{Name: "a.yaml", Data: a}, {Name: "b" + strconv.Itoa(n%3) + ".yaml", Data: fmt.Appendf(nil, "rules: [{id: v%d-b, limit: 1/s}]\n", n)}}
}

// beVictim publishes versions until it is killed and prints the number of each
// after it is published.
func beVictim(kind, dir string) error {
	k := targetOf(kind, dir, func(*rule.Set, ruleset.Version) {})
	if err := k.Load(context.Background()); err != nil {
		return err
	}
	_, v := k.Current()
	for n := int(v.Number) + 1; ; n++ {
		if _, err := k.Publish(context.Background(), ruleset.Change{Files: victimFiles(kind, n), Anyway: true}); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// A process that writes versions is killed at any instant. The next process
// reads the last version that was reported as published, or the one after it,
// complete.
func TestKilledWhileWritingLeavesTheVersionBeforeOrAfter(t *testing.T) {
	t.Parallel()
	kills := 40
	if testing.Short() {
		kills = 5
	}
	for _, kind := range victims {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "rules"), 0o700); err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(dir, "rules", "a.yaml"), manyRules(1, 3))
			before, torn := 0, 0
			for range kills {
				last := killed(t, kind, dir)
				got := survivor(t, kind, dir)
				if last > 0 && got != last && got != last+1 {
					t.Fatalf("killed after version %d was published, and found version %d", last, got)
				}
				if got == last+1 {
					torn++
				}
				before += last
			}
			t.Logf("%d kills: %d of them found the version that was on its way", kills, torn)
			if before == 0 {
				t.Error("no version was ever published")
			}
		})
	}
}

// killed runs a victim for some milliseconds after its first version. It
// returns the last version that the victim reported as published, or 0.
func killed(t *testing.T, kind, dir string) (last int) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), victimKind+"="+kind, victimFolder+"="+dir)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 1)
	if _, err := out.Read(first); err != nil {
		t.Fatalf("the victim publishes nothing: %v", err)
	}
	time.AfterFunc(time.Duration(rand.IntN(30_000))*time.Microsecond, func() { _ = c.Process.Kill() })
	said := string(first)
	for buffer := make([]byte, 4096); ; {
		n, err := out.Read(buffer)
		said += string(buffer[:n])
		if err != nil {
			break
		}
	}
	_ = c.Wait() // the error reports the kill
	lines := strings.Split(said, "\n")
	last, err = strconv.Atoi(lines[len(lines)-2]) // the text after the last newline may be incomplete
	if err != nil {
		t.Fatalf("%q", said)
	}
	return last
}

// survivor loads the rules, checks that they are one complete version, and
// returns its number.
func survivor(t *testing.T, kind, dir string) int {
	t.Helper()
	var set *rule.Set
	k := targetOf(kind, dir, func(s *rule.Set, _ ruleset.Version) { set = s })
	if err := k.Load(t.Context()); err != nil {
		t.Fatalf("after the kill: %v", err)
	}
	all := set.Rules()
	version, _, _ := strings.Cut(all[0].ID, "-")
	for _, r := range all {
		if v, _, _ := strings.Cut(r.ID, "-"); v != version {
			t.Fatalf("rules of %s and %s at once", version, v)
		}
	}
	n, err := strconv.Atoi(strings.TrimPrefix(version, "v"))
	if want := len(victimFiles(kind, n)) + 299; err != nil || len(all) != want {
		t.Fatalf("version %s has %d rules, want %d", version, len(all), want)
	}
	return n
}
