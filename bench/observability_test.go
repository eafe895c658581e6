package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestServersWithAndWithoutOutputsAnswerAlike(t *testing.T) {
	collector := newCollector()
	addr := listen(t, func(l net.Listener) error {
		if err := collector.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}, func() { _ = collector.Close() })
	f := newTestField(t)
	names, err := f.startObserved(t.Context(), options{stint: stintProgram(t)}, addr, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.check(); err != nil {
		t.Error(err)
	}
	result := f.race(options{rounds: 1, slice: 10 * time.Millisecond, busy: true})
	var out strings.Builder
	var b bars
	result.printObserved(&out, names)
	result.judgeObserved(&b, names)
	b.print(&out)
	for _, name := range names {
		a := result.seen[name+observed]
		if a.Calls == 0 || a.Refused > 0 || !strings.Contains(out.String(), "\n"+name+observed+", processor time") {
			t.Errorf("%s: %d calls, %d of them not admitted\n%s", name, a.Calls, a.Refused, out.String())
		}
	}
	if len(names) != 6 {
		t.Errorf("%d surfaces", len(names))
	}
}
