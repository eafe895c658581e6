package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A signal ends a replay in memory and a search of limits, which then report what they have decided or
// read, marked as cut short.
func TestInterruptedReplayReports(t *testing.T) {
	rules := writeFile(t, t.TempDir()+"/rules.yaml", "rules: [{id: one, by: [key], limit: 3, window: 1h}]")
	for name, args := range map[string][]string{
		"limit":   {"replay", "--limit", "3/h", "--by", "key"},
		"rules":   {"replay", "--rules", rules},
		"retries": {"replay", "--rules", rules, "--retries", "hammer"},
		"sweep":   {"replay", "--limit", "3/h", "--by", "key", "--sweep", "limit=3..4"},
		"suggest": {"suggest", "--by", "key"},
	} {
		for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
			t.Run(name+"/"+s.String(), func(t *testing.T) { wantReported(t, s, args) })
		}
	}
}

// wantReported checks the report of a replay whose input is endless: it waits for more.
func wantReported(t *testing.T, s syscall.Signal, args []string) {
	t.Helper()
	input, output, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { input.Close(); output.Close() })
	var report, log bytes.Buffer
	c := exec.Command(binary, slices.Concat(args, []string{"--json", "--reorder", "0", "-"})...)
	c.Env, c.Stdin, c.Stdout, c.Stderr = cleanEnvironment(), input, &report, &log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	if _, err := output.WriteString(strings.Repeat(traffic(9, 500), 4)); err != nil { // more than the pipe holds: the replay runs
		t.Fatal(err)
	}
	if err := c.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	killed := time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() })
	defer killed.Stop()
	_ = c.Wait() // its status follows
	if status := c.ProcessState.ExitCode(); status != exitFailed || !strings.Contains(log.String(), args[0]+": interrupted") {
		t.Errorf("status %d: %s", status, &log)
	}
	var got struct {
		CutShort bool  `json:"cut_short"`
		Events   int64 `json:"events"`
		Windows  []any `json:"windows"`
	}
	if err := json.Unmarshal(report.Bytes(), &got); err != nil || !got.CutShort || got.Events == 0 || args[0] == "suggest" && len(got.Windows) == 0 {
		t.Errorf("%v: %s", err, &report)
	}
}

// A signal while the replay waits for its store leaves no part of a page behind.
func TestAReplayInterruptedBeforeItsStoreLeavesNoPage(t *testing.T) {
	folder := t.TempDir()
	c := exec.Command(binary, "replay", "--limit", "1/h", "--by", "ip", "--store", "redis://127.0.0.1:1", "--html", folder+"/report.html", sampleLog)
	c.Env = cleanEnvironment()
	p := startCommand(t, c)
	for len(filesIn(t, folder)) == 0 { // the page is opened before the store
		<-time.After(time.Millisecond)
	}
	p.signal(os.Interrupt)
	if status, left := p.exit(), filesIn(t, folder); status != exitFailed || len(left) > 0 {
		t.Errorf("status %d, left %q", status, left)
	}
}

func filesIn(t *testing.T, folder string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
