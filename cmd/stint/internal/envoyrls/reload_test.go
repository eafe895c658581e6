package envoyrls

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// watching is a service that watches its directory, with a record of its loads.
type watching struct {
	*serving
	loaded chan int
}

func watched(t *testing.T, dir string) *watching {
	t.Helper()
	f := &watching{loaded: make(chan int, 100)}
	store := stint.NewMemory(stint.MemoryOptions{MaxKeys: 1000, Clock: func() time.Time { return time.UnixMicro(start) }})
	service, err := New(Options{Dir: dir, Store: store, Loaded: func(n int) { f.loaded <- n }})
	if err != nil {
		t.Fatal(err)
	}
	f.serving = &serving{Service: service, t: t, dir: dir}
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { f.Run(ctx); close(done) }()
	t.Cleanup(func() { end(); <-done })
	f.wantLoaded(0)
	<-f.Watching()
	return f
}

func (f *watching) wantLoaded(mistaken int) {
	f.t.Helper()
	select {
	case n := <-f.loaded:
		if n != mistaken {
			f.t.Fatalf("%d files with mistakes, want %d", n, mistaken)
		}
	case <-time.After(20 * time.Second):
		f.t.Fatal("nothing was loaded")
	}
}

func limited(domain, requests string) string {
	return "domain: " + domain + "\ndescriptors:\n  - {key: k, rate_limit: {unit: minute, requests_per_unit: " + requests + "}}\n"
}

func TestABadFileTakesNoOtherDomainDown(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	write(t, a, limited("a", "3"))
	write(t, b, limited("b", "3"))
	f := watched(t, dir)
	write(t, a, limited("a", "minus"))
	f.wantLoaded(1)
	f.want(request("a", "k=1"), "OK | OK 3/MINUTE left 2 reset 40")
	write(t, b, limited("b", "8"))
	f.wantLoaded(1)
	f.want(request("a", "k=1"), "OK | OK 3/MINUTE left 1 reset 40")
	f.want(request("b", "k=1"), "OK | OK 8/MINUTE left 7 reset 40")
	write(t, a, limited("a", "9"))
	f.wantLoaded(0)
	f.want(request("a", "k=1"), "OK | OK 9/MINUTE left 6 reset 40")
	write(t, filepath.Join(dir, "c.yaml"), limited("b", "1"))
	f.wantLoaded(1) // b.yaml has the domain
	f.want(request("b", "k=2"), "OK | OK 8/MINUTE left 7 reset 40")
	if err := os.Remove(b); err != nil {
		t.Fatal(err)
	}
	f.wantLoaded(0)
	f.want(request("b", "k=2"), "OVER_LIMIT | OVER_LIMIT 1/MINUTE left 0 reset 40")
}

func TestASwappedConfigMapIsRead(t *testing.T) {
	dir := t.TempDir()
	swap := func(version, text string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, version, "config.yaml"), text)
		if err := os.Symlink(version, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	swap("..1", limited("d", "3"))
	if err := os.Symlink(filepath.Join("..data", "config.yaml"), filepath.Join(dir, "config.yaml")); err != nil {
		t.Fatal(err)
	}
	f := watched(t, dir)
	f.want(request("d", "k=1"), "OK | OK 3/MINUTE left 2 reset 40")
	swap("..2", limited("d", "7"))
	f.wantLoaded(0)
	f.want(request("d", "k=1"), "OK | OK 7/MINUTE left 5 reset 40")
}

// A directory that reappears unchanged counts as a successful load.
func TestAFolderThatComesBackIsRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "config")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "a.yaml"), limited("a", "3"))
	f := watched(t, dir)
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	f.wantLoaded(1)
	f.want(request("a", "k=1"), "OK | OK 3/MINUTE left 2 reset 40")
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	f.wantLoaded(0)
	write(t, filepath.Join(dir, "a.yaml"), limited("a", "9"))
	f.wantLoaded(0)
	f.want(request("a", "k=1"), "OK | OK 9/MINUTE left 7 reset 40")
}

func TestReloadReadsAgain(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), limited("a", "3"))
	f := watched(t, dir)
	f.Reload()
	f.wantLoaded(0)
}

func TestAFolderWithoutAGoodFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), "domain: ''\n")
	for path, want := range map[string]string{dir: "a.yaml:1:9: config file cannot have empty domain", filepath.Join(dir, "none"): "no such file"} {
		if _, err := New(Options{Dir: path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestMergedFilesAreOneDomain(t *testing.T) {
	s := serve(t, limited("d", "3"), func(o *Options) {
		o.Merge = true
		write(t, filepath.Join(o.Dir, "other.yaml"), "domain: d\ndescriptors: [{key: o*, rate_limit: {unit: minute, requests_per_unit: 5}}]\n")
		write(t, filepath.Join(o.Dir, "third.yaml"), limited("d", "9"))
	})
	s.want(request("d", "k=1", "other=1"), "OK | OK 3/MINUTE left 2 reset 40 | OK 5/MINUTE left 4 reset 40")
	r, err := s.folder.read()
	if err != nil || len(r.errs) != 1 || !strings.Contains(r.err().Error(), "third.yaml:1:9: duplicate descriptor composite key 'd.k'") {
		t.Errorf("%v %v", err, r.err())
	}
}
