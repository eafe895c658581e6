package slowclient

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// A read ends at the deadline that was set last, whatever was set before it, or while the
// read waits.
func TestReadsEndAtTheLastDeadline(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		before, during []time.Duration // from the start; 0: none
		want           time.Duration
	}{
		"one":              {before: []time.Duration{3 * s}, want: 3 * s},
		"later":            {before: []time.Duration{s, 5 * s}, want: 5 * s},
		"muchLater":        {before: []time.Duration{s, 0, 5 * s, 0, 9 * s}, want: 9 * s},
		"earlier":          {before: []time.Duration{9 * s, s}, want: s},
		"past":             {before: []time.Duration{9 * s, -s}, want: 0},
		"afterThePast":     {before: []time.Duration{-s, 0, 2 * s}, want: 2 * s},
		"laterDuring":      {before: []time.Duration{2 * s}, during: []time.Duration{9 * s}, want: 9 * s},
		"earlierDuring":    {before: []time.Duration{9 * s}, during: []time.Duration{2 * s}, want: 2 * s},
		"firstDuring":      {during: []time.Duration{2 * s}, want: 2 * s},
		"pastDuring":       {before: []time.Duration{9 * s}, during: []time.Duration{-s}, want: s},
		"noneAndOneDuring": {before: []time.Duration{2 * s}, during: []time.Duration{0, 4 * s}, want: 4 * s},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				raw, client := net.Pipe()
				defer client.Close()
				conn := &timedConn{conn: conn{raw}, timeout: s}
				defer conn.Close()
				start := time.Now()
				set := func(all []time.Duration) {
					for _, d := range all {
						at := start.Add(d)
						if d == 0 {
							at = time.Time{}
						}
						if err := conn.SetReadDeadline(at); err != nil {
							t.Error(err)
						}
					}
				}
				set(c.before)
				time.AfterFunc(s, func() { set(c.during) })
				_, err := conn.Read(make([]byte, 1))
				if took := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) || took != c.want {
					t.Errorf("%v after %v, want %v", err, took, c.want)
				}
				time.Sleep(10 * s)
			})
		})
	}
}

// Without a deadline, a read that an earlier one ends goes on until there is something to
// read.
func TestReadsGoOnWithoutADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raw, client := net.Pipe()
		defer client.Close()
		conn := &timedConn{conn: conn{raw}, timeout: time.Second}
		defer conn.Close()
		for _, at := range []time.Time{time.Now().Add(time.Second), {}} {
			if err := conn.SetReadDeadline(at); err != nil {
				t.Fatal(err)
			}
		}
		time.AfterFunc(time.Hour, func() { _, _ = client.Write([]byte("x")) })
		if n, err := conn.Read(make([]byte, 2)); n != 1 || err != nil {
			t.Errorf("read %d bytes, %v", n, err)
		}
	})
}
