package rulelimit

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// unquoted returns a log without the backslashes of its quoted values.
func unquoted(log string) string { return strings.ReplaceAll(log, `\`, "") }

// allows is a rule file whose only rule allows a number of requests an hour.
func allows(n int) string {
	return fmt.Sprintf("rules: [{id: a, by: [ip], limit: %d, window: 1h}]\n", n)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type watched struct {
	*Decider

	t   *testing.T
	log logBuffer
}

// logBuffer is a log that is read while it is written.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// watch begins to watch, in a bubble of synctest.
func watch(t *testing.T, path string) *watched {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	w := &watched{t: t}
	d, err := Watch(ctx, path, newStore(t), Options{Logger: logTo(&w.log)})
	must(t, err)
	w.Decider = d
	return w
}

// wants waits for less than the time that Watch promises, and checks the limit in force
// and the mistake that is reported.
func (w *watched) wants(limit int, mistake string) {
	w.t.Helper()
	time.Sleep(3*pollInterval - time.Millisecond)
	synctest.Wait()
	if got := get(w.Decider, "/").Header().Get("X-RateLimit-Limit"); got != fmt.Sprint(limit) {
		w.t.Errorf("the limit is %s, want %d", got, limit)
	}
	switch err := w.Status().Err; {
	case mistake == "" && err != nil:
		w.t.Errorf("unexpected: %v", err)
	case mistake != "" && (err == nil || !strings.Contains(err.Error(), mistake)):
		w.t.Errorf("%v, want %q", err, mistake)
	}
}

func TestWatchNoticesEveryKindOfChange(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, path string){
		"in place": func(t *testing.T, path string) { write(t, path, allows(2)) },
		"rename": func(t *testing.T, path string) {
			write(t, path+".new", allows(2))
			must(t, os.Rename(path+".new", path))
		},
		"removed and written": func(t *testing.T, path string) {
			must(t, os.Remove(path))
			write(t, path, allows(2))
		},
		"a link in its place": func(t *testing.T, path string) {
			target := filepath.Join(t.TempDir(), "other.yaml")
			write(t, target, allows(2))
			must(t, os.Remove(path))
			must(t, os.Symlink(target, path))
		},
		"same size and time": func(t *testing.T, path string) {
			info, err := os.Stat(path)
			must(t, err)
			write(t, path, allows(2))
			must(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "rules.yaml")
				write(t, path, allows(1))
				w := watch(t, path)
				w.wants(1, "")
				change(t, path)
				w.wants(2, "")
				if n := w.Status().Number; n != 2 {
					t.Errorf("%d sets were in force", n)
				}
			})
		})
	}
}

// A ConfigMap is a folder of links to files in ..data, which is a link to a folder that
// the kubelet replaces by a rename.
func TestWatchOfAMountedConfigMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		version := func(name string, limit int) {
			must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
			write(t, filepath.Join(dir, name, "rules.yaml"), allows(limit))
			must(t, os.Symlink(name, filepath.Join(dir, "..data_tmp")))
			must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
		}
		version("..1", 1)
		must(t, os.Symlink(filepath.Join("..data", "rules.yaml"), filepath.Join(dir, "rules.yaml")))
		folder, file := watch(t, dir), watch(t, filepath.Join(dir, "rules.yaml"))
		version("..2", 2)
		must(t, os.RemoveAll(filepath.Join(dir, "..1")))
		folder.wants(2, "")
		file.wants(2, "")
	})
}

func TestRejectedFilesLeaveTheOldRulesInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "rules.yaml")
		write(t, path, allows(1))
		w := watch(t, path)
		for _, c := range []struct{ text, mistake string }{
			{"rules: [{id: a, limt: 5}]", `no key "limt"`},
			{"rules: [{id: a, by: [user], limit: 5/s}]", `"user" is no attribute`},
			{"", "has become empty"},
		} {
			before := strings.Count(w.log.String(), "rules rejected; the previous version stays in force")
			write(t, path, c.text)
			w.wants(1, c.mistake)
			w.wants(1, c.mistake)
			if n := strings.Count(w.log.String(), "rules rejected; the previous version stays in force"); n != before+1 {
				t.Errorf("%q is logged %d times", c.mistake, n-before)
			}
		}
		must(t, os.Remove(path))
		w.wants(1, "cannot be read")
		write(t, path, allows(1))
		w.wants(1, "") // undone
		write(t, path, "rules: []")
		time.Sleep(3 * pollInterval)
		synctest.Wait()
		if got := get(w.Decider, "/"); got.Code != http.StatusOK || got.Header().Get("X-RateLimit-Limit") != "" {
			t.Errorf("%d %v: the set has no rules", got.Code, got.Header())
		}
		if !strings.Contains(w.log.String(), "the set is empty, so nothing is limited") {
			t.Error(w.log.String())
		}
	})
}

// A program puts a set in force, and the files change and change back: they were changed
// last, so their rules apply.
func TestFilesThatChangeReplaceTheSetOfTheProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "rules.yaml")
		write(t, path, allows(1))
		w := watch(t, path)
		must(t, w.Use(parsed(t, allows(7))))
		w.wants(7, "")
		write(t, path, "rules: [")
		w.wants(7, "not YAML")
		write(t, path, allows(1))
		w.wants(1, "")
	})
}

// A file that is written in steps is applied only when the writer has finished.
func TestAFileIsAppliedOnceItHasSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "rules.yaml")
		write(t, path, allows(1))
		w := watch(t, path)
		time.Sleep(pollInterval / 2) // write between two reads
		for i := range 10 {
			write(t, path, allows(2)+strings.Repeat("#", i))
			time.Sleep(pollInterval)
			if n := w.Status().Number; n != 1 {
				t.Fatalf("step %d is in force", i)
			}
		}
		w.wants(2, "")
	})
}

func TestWatchNeedsRulesToBeginWith(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rules.yaml")
	for want, text := range map[string]string{"cannot be read": "-", "holds no": "/", "no attribute": "rules: [{id: a, by: [user], limit: 5/s}]", "not YAML": "{"} {
		at := path
		switch text {
		case "-":
		case "/":
			at = t.TempDir()
		default:
			write(t, path, text)
		}
		if want == "cannot be read" {
			at = filepath.Join(dir, "none.yaml")
		}
		if d, err := Watch(t.Context(), at, newStore(t), Options{}); err == nil || d != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := Watch(t.Context(), path, nil, Options{}); err == nil {
		t.Error("no store")
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "rules.yaml")
		write(t, path, allows(1))
		ctx, cancel := context.WithCancel(t.Context())
		d, err := Watch(ctx, path, newStore(t), Options{})
		must(t, err)
		cancel()
		synctest.Wait() // the bubble ends only if no goroutine is left
		write(t, path, allows(2))
		time.Sleep(time.Minute)
		if got := get(d, "/").Header().Get("X-RateLimit-Limit"); got != "1" {
			t.Errorf("the limit is %s", got)
		}
	})
}
