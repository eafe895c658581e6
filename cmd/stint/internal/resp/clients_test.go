package resp

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint/internal/secret"
)

// TestRedisCLI runs redis-cli.
func TestRedisCLI(t *testing.T) {
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Skip("redis-cli is not installed")
	}
	s := run(t, Options{Token: secret.Fixed("s3cret")})
	_, port, _ := strings.Cut(s.addr, ":")
	for _, c := range []struct {
		stdin, want string
		args        []string
	}{
		{"", "0\n16\n15\n-1\n2\n", []string{"--pass", "s3cret", "CL.THROTTLE", "user123", "15", "30", "60", "1"}},
		{"", "0\n16\n13\n-1\n6\n", []string{"-3", "--user", "default", "--pass", "s3cret", "CL.THROTTLE", "user123", "15", "30", "60", "2"}},
		{"", "NOAUTH Authentication required.\n\n", []string{"PING"}},
		{"PING\nCL.THROTTLE user123 15 30 60 0\nSELECT 0\nCOMMAND COUNT\n", "PONG\n0\n16\n13\n-1\n6\nOK\n11\n", []string{"--pass", "s3cret"}},
	} {
		command := exec.CommandContext(t.Context(), cli, append([]string{"-p", port, "--no-auth-warning"}, c.args...)...)
		command.Stdin = strings.NewReader(c.stdin)
		out, err := command.CombinedOutput()
		if err != nil || string(out) != c.want {
			t.Errorf("%v: %q, %v, want %q", c.args, out, err, c.want)
		}
	}
}

// TestRueidis connects with default options, which include client-side caching, and
// without caching.
func TestRueidis(t *testing.T) {
	s := run(t, Options{Token: secret.Fixed("s3cret")})
	for i, option := range []rueidis.ClientOption{
		{},
		{ClientName: "web"},
		{DisableCache: true, AlwaysRESP2: true},
		{DisableCache: true, ForceSingleClient: true, AlwaysPipelining: true},
	} {
		option.InitAddress, option.Password = []string{s.addr}, "s3cret"
		client, err := rueidis.NewClient(option)
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		defer client.Close()
		key := fmt.Sprintf("k%d", i)
		var commands rueidis.Commands
		for range 100 {
			commands = append(commands, client.B().Arbitrary("CL.THROTTLE").Keys(key).Args("49", "1", "60").Build())
		}
		for n, answer := range client.DoMulti(t.Context(), commands...) {
			got, err := answer.AsIntSlice()
			want := []int64{0, 50, int64(49 - n), -1, int64(60 * (n + 1))}
			if n >= 50 {
				want = []int64{1, 50, 0, 60, 3000}
			}
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%d: %d: %v, %v, want %v", i, n, got, err, want)
			}
		}
		if err := client.Do(t.Context(), client.B().Get().Key("k").Build()).Error(); err == nil || !strings.HasPrefix(err.Error(), "unknown command 'GET'") {
			t.Errorf("%v", err)
		}
	}
}
