package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// askRESP sends a line and returns the lines of the answer.
func askRESP(t *testing.T, conn net.Conn, line string, lines int) []string {
	t.Helper()
	if _, err := io.WriteString(conn, line+"\r\n"); err != nil {
		t.Fatal(err)
	}
	reader, answer := bufio.NewReader(conn), []string(nil)
	for range lines {
		text, err := reader.ReadString('\n')
		if err != nil {
			t.Fatalf("%v after %q", err, answer)
		}
		answer = append(answer, strings.TrimSpace(text))
	}
	return answer
}

// TestRESPDecidesAsTake sends the same requests to both surfaces.
func TestRESPDecidesAsTake(t *testing.T) {
	s := run(t, Config{RESP: "127.0.0.1:0"})
	conn := dial(t, s.Addr("resp"))
	for i, step := range []struct {
		after time.Duration
		cost  int
	}{{0, 1}, {0, 3}, {0, 0}, {100 * time.Millisecond, 2}, {0, 5}, {0, 6}, {0, 1}, {1700 * time.Millisecond, 1}, {0, -1}, {10 * time.Second, 5}, {0, 1}} {
		s.clock.add(step.after)
		take := s.post("http", "/v1/take", fmt.Sprintf(`{"key":"k","limit":{"algorithm":"gcra","limit":3,"window":"2s","burst":5},"cost":%d}`, step.cost)).decoded(t)
		limited, retry := 0, int64(-1)
		if take["allowed"] == false {
			limited = 1
			if take["never"] == false {
				retry = seconds(take["retry_after_ms"])
			}
		}
		want := fmt.Sprintf("[*5 :%d :%v :%v :%d :%d]", limited, take["limit"], take["remaining"], retry, seconds(take["reset_after_ms"]))
		if got := askRESP(t, conn, fmt.Sprintf("CL.THROTTLE k 4 3 2 %d", step.cost), 6); fmt.Sprint(got) != want {
			t.Errorf("%d: %v, want %s", i, got, want)
		}
	}
}

// seconds rounds milliseconds in JSON up to seconds.
func seconds(ms any) int64 { return (int64(ms.(float64)) + 999) / 1000 }

func TestRESPIsCountedAndNamed(t *testing.T) {
	s := run(t, Config{RESP: "127.0.0.1:0"})
	conn := dial(t, s.Addr("resp"))
	askRESP(t, conn, "CL.THROTTLE k 0 1 1\r\nCL.THROTTLE k 0 1 1", 12)
	metrics := s.get("admin", "/metrics").body
	for _, line := range []string{
		`stint_check_duration_seconds_count{surface="resp"} 2`,
		`stint_decisions_total{decision="allow",rule="(take)"} 1`,
		`stint_decisions_total{decision="deny",rule="(take)"} 1`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("no %s in\n%s", line, metrics)
		}
	}
	s.logs.wait(t, "name=resp")
}

func TestRESPAsksForTheToken(t *testing.T) {
	s := run(t, Config{RESP: "127.0.0.1:0", HTTPToken: "s3cret"})
	conn := dial(t, s.Addr("resp"))
	for _, step := range []struct{ sent, want string }{{"PING", "-NOAUTH Authentication required."}, {"AUTH s3cret", "+OK"}, {"PING", "+PONG"}} {
		if got := askRESP(t, conn, step.sent, 1); got[0] != step.want {
			t.Errorf("%s: %v", step.sent, got)
		}
	}
}

func TestRESPIsClosedByADrain(t *testing.T) {
	s := run(t, Config{RESP: "127.0.0.1:0"})
	conn := dial(t, s.Addr("resp"))
	askRESP(t, conn, "PING", 1)
	s.stop()
	if _, err := io.ReadAll(conn); err != nil {
		t.Errorf("the connection was not closed in order: %v", err)
	}
	if err := s.end(); err != nil {
		t.Error(err)
	}
}

func TestRESPDoesNotCountWithTake(t *testing.T) {
	s := run(t, Config{RESP: "127.0.0.1:0"})
	if got := s.post("http", "/v1/take", `{"key":"k","limit":{"name":"gcra","algorithm":"gcra","limit":1,"window":"1m"}}`); got.status != http.StatusOK {
		t.Fatal(got.body)
	}
	if got := askRESP(t, dial(t, s.Addr("resp")), "CL.THROTTLE k 0 1 60", 6); got[1] != ":0" {
		t.Errorf("%v: a key of /v1/take was counted", got)
	}
}

func TestRESPIsOpenWhileTheStoreFails(t *testing.T) {
	s := guarded(t, Config{RESP: "127.0.0.1:0"})
	conn := dial(t, s.Addr("resp"))
	for range 3 {
		if got := askRESP(t, conn, "CL.THROTTLE k 0 1 60", 6); fmt.Sprint(got) != "[*5 :0 :1 :-1 :-1 :0]" {
			t.Errorf("%v", got)
		}
	}
	if got := askRESP(t, conn, "CL.THROTTLE k 0 1 60 -1", 1); !strings.HasPrefix(got[0], "-ERR no decision could be made: the store fails (") {
		t.Errorf("giving back: %v", got)
	}
	if metrics := s.get("admin", "/metrics").body; !strings.Contains(metrics, `stint_decisions_total{decision="error_open",rule="(take)"} 3`) {
		t.Error(metrics)
	}
}
