package redistest

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestServerWithAClockOfItsOwn(t *testing.T) {
	p := Server(t)
	p.RestartWithClock(time.Hour)
	seconds, _, _ := strings.Cut(p.Must("TIME"), "\n")
	now, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if ahead := time.Until(time.Unix(now, 0)); ahead < time.Hour-time.Minute || ahead > time.Hour+time.Minute {
		t.Errorf("the server is %v ahead", ahead)
	}
}
