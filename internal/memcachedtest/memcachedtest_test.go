package memcachedtest

import (
	"net"
	"slices"
	"testing"
	"time"
)

func TestServerRestartsEmptyOnItsPort(t *testing.T) {
	s := Start(t, "-m", "8")
	if got := s.Do("set k 0 0 1\r\nv"); !slices.Equal(got, []string{"STORED"}) {
		t.Error(got)
	}
	if got := s.Do("get k"); !slices.Equal(got, []string{"VALUE k 0 1", "v", "END"}) {
		t.Error(got)
	}
	if got := s.Stat("limit_maxbytes"); got != "8388608" {
		t.Error(got)
	}
	addr := s.Addr()
	s.Restart()
	if got := s.Do("get k"); s.Addr() != addr || !slices.Equal(got, []string{"END"}) {
		t.Error(got)
	}
}

func TestFrozenServerAnswersOnceItIsThawed(t *testing.T) {
	s := Start(t)
	s.Freeze()
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("version\r\n")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 7)
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, _ := c.Read(answer); n > 0 {
		t.Error("a frozen server answers")
	}
	s.Thaw()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := c.Read(answer); err != nil || string(answer) != "VERSION" {
		t.Errorf("%q %v", answer, err)
	}
}
