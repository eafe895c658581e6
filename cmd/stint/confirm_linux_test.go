package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal opens a pseudo-terminal: a command reads from the second file what the
// test types into the first.
func terminal(t *testing.T) (typed, read *os.File) {
	t.Helper()
	typed, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo-terminal here: ", err)
	}
	t.Cleanup(func() { typed.Close() })
	if err := unix.IoctlSetPointerInt(int(typed.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(typed.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	read, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close() })
	return typed, read
}

// asked starts a command at a terminal, and returns when the command asks.
func (a *administered) asked(args ...string) (*process, *os.File) {
	a.t.Helper()
	typed, read := terminal(a.t)
	p := startProcessWith(a.t, read, a.env, args...)
	p.wait("This is dangerous: ")
	return p, typed
}

func TestRulesAreSanitizedForATerminal(t *testing.T) {
	set := map[string]any{"files": []map[string]any{{"name": "a.yaml", "text": "rules: [] #" + hostile}}}
	server := "STINT_SERVER=" + answering(t, 200, set)
	shown, screen := terminal(t)
	for _, args := range [][]string{{"rules", "show"}, {"rules", "show", "--json"}} {
		c := exec.Command(binary, args...)
		c.Env, c.Stdout = append(cleanEnvironment(), server), screen
		if err := c.Run(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(shown).ReadString('\n')
		if err != nil || !strings.Contains(line, "owned") || harmful(strings.TrimSuffix(line, "\r\n")) {
			t.Errorf("%v: %v, %q", args, err, line)
		}
	}
	if got := command(t, []string{server}, "rules", "show"); got.out != "rules: [] #"+hostile+"\n" {
		t.Errorf("output that is not a terminal is changed: %q", got.out)
	}
}

func answer(t *testing.T, typed *os.File, text string) {
	t.Helper()
	if _, err := typed.WriteString(text + "\n"); err != nil {
		t.Fatal(err)
	}
}

func TestTheAnswerDecides(t *testing.T) {
	a := administer(t)
	a.run(exitDone, nil, "rules", "apply", a.file("first.yaml", adminRules))
	removed := a.file("removed.yaml", adminRemoved)
	for _, no := range []string{"n", "", "yesterday"} {
		p, typed := a.asked("rules", "apply", removed)
		answer(t, typed, no)
		if status := p.exit(); status != exitFailed {
			t.Errorf("%q: status %d", no, status)
		}
	}
	a.run(exitDone, []string{"1*"}, "rules", "history")
	p, typed := a.asked("rules", "apply", removed)
	answer(t, typed, "Yes")
	if status := p.exit(); status != exitDone {
		t.Errorf("status %d", status)
	}
	a.run(exitDone, []string{"2*"}, "rules", "history")
}

func TestAVersionPublishedDuringTheQuestionIsNotLost(t *testing.T) {
	a := administer(t)
	a.run(exitDone, nil, "rules", "apply", a.file("first.yaml", adminRules))
	p, typed := a.asked("rules", "apply", a.file("removed.yaml", adminRemoved))
	a.run(exitDone, []string{"version 2"}, "rules", "apply", a.file("raised.yaml", adminRaised))
	answer(t, typed, "y")
	p.wait("412")
	p.wait("+  - {id: a, limit: 20")
	if status := p.exit(); status != exitFailed {
		t.Errorf("status %d", status)
	}
	a.run(exitDone, []string{"2*"}, "rules", "history")
}

func TestAConfirmedImpactIsForced(t *testing.T) {
	a := administer(t)
	a.run(exitDone, nil, "rules", "apply", a.file("wide.yaml", "rules:\n  - {id: a, limit: 1000, window: 1m}\n"))
	a.traffic(120)
	p, typed := a.asked("rules", "apply", a.file("strict.yaml", "rules:\n  - {id: a, limit: 1, window: 1m}\n"))
	p.wait("impact: denies 119 of the 120")
	answer(t, typed, "y")
	if status := p.exit(); status != exitDone {
		t.Errorf("status %d", status)
	}
	a.run(exitDone, []string{"2*"}, "rules", "history")
	a.wait("result=IMPACT")
	a.wait("forced=true version=2")
}

func TestEachDangerIsAskedForTheWorstFirst(t *testing.T) {
	a := administer(t)
	a.run(exitDone, nil, "rules", "apply", a.file("wide.yaml", "rules:\n  - {id: a, limit: 1000, window: 1m}\n  - {id: b, by: [ip], limit: 1000, window: 1m}\n"))
	a.traffic(120)
	p, typed := a.asked("rules", "apply", a.file("strict.yaml", "rules:\n  - {id: a, limit: 1, window: 1m}\n"))
	p.wait("This is dangerous: it would deny 99.2 % of the requests")
	answer(t, typed, "y")
	p.wait("This is dangerous: it removes 1 rule (b)")
	answer(t, typed, "n")
	if status := p.exit(); status != exitFailed {
		t.Errorf("status %d", status)
	}
	p, typed = a.asked("rules", "apply", "--yes=removes", a.file("strict.yaml", "rules:\n  - {id: a, limit: 1, window: 1m}\n"))
	answer(t, typed, "y")
	if status := p.exit(); status != exitDone {
		t.Errorf("status %d", status)
	}
	if asked := strings.Count(strings.Join(p.logged(), "\n"), "This is dangerous: "); asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	a.run(exitDone, []string{"2*"}, "rules", "history")
}

func TestDifferencesAreColouredOnATerminal(t *testing.T) {
	a := administer(t)
	a.run(exitDone, nil, "rules", "apply", a.file("first.yaml", adminRules))
	raised := a.file("raised.yaml", adminRaised)
	for _, env := range []struct {
		set      string
		coloured bool
	}{{"TERM=xterm", true}, {"NO_COLOR=1", false}, {"TERM=dumb", false}} {
		shown, screen := terminal(t)
		c := exec.Command(binary, "rules", "diff", raised)
		c.Env, c.Stdout = append(append(cleanEnvironment(), "NO_COLOR=", "TERM=xterm", env.set), a.env...), screen
		if err := c.Run(); err != nil {
			t.Fatal(err)
		}
		added := ""
		for lines := bufio.NewReader(shown); !strings.Contains(added, "+  - {id: a, limit: 20"); {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			added = line
		}
		if coloured := strings.HasPrefix(added, greenStyle); coloured != env.coloured || strings.Contains(added, "\x1b") != env.coloured {
			t.Errorf("%s: %q", env.set, added)
		}
	}
}
