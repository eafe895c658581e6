package resp

import (
	"strings"
	"testing"

	"github.com/stintdev/stint/internal/secret"
)

// TestCommands sends each line on one connection, in turn.
func TestCommands(t *testing.T) {
	c := run(t, Options{}).dial()
	for _, step := range []struct{ sent, want string }{
		{words("PING"), "+PONG\r\n"},
		{words("ping hello"), "$5\r\nhello\r\n"},
		{words("PING a b"), "-ERR wrong number of arguments for 'ping' command\r\n"},
		{encode("ECHO", ""), "$0\r\n\r\n"},
		{words("ECHO"), "-ERR wrong number of arguments for 'echo' command\r\n"},
		{words("SELECT 0"), "+OK\r\n"},
		{words("SELECT 1"), "-ERR DB index is out of range\r\n"},
		{words("SELECT x"), "-ERR value is not an integer or out of range\r\n"},
		{words("CLIENT ID"), ":1\r\n"},
		{words("CLIENT GETNAME"), "$-1\r\n"},
		{words("CLIENT SETNAME web-1"), "+OK\r\n"},
		{words("client getname"), "$5\r\nweb-1\r\n"},
		{encode("CLIENT", "SETNAME", "a b"), "-" + badName + "\r\n"},
		{words("CLIENT SETINFO LIB-NAME x"), "+OK\r\n"},
		{words("CLIENT SETINFO lib-ver 1"), "+OK\r\n"},
		{words("CLIENT SETINFO lib-age 1"), "-ERR Unrecognized option 'lib-age'\r\n"},
		{words("CLIENT SETINFO"), "-ERR wrong number of arguments for 'client|setinfo' command\r\n"},
		{words("CLIENT TRACKING ON OPTIN"), "+OK\r\n"},
		{words("CLIENT NO-EVICT ON"), "+OK\r\n"},
		{words("CLIENT KILL 1"), "-ERR unknown subcommand 'KILL' of CLIENT (there are ID, GETNAME, SETNAME and SETINFO)\r\n"},
		{words("COMMAND COUNT"), ":11\r\n"},
		{words("COMMAND INFO cl.throttle"), "*1\r\n*6\r\n$11\r\ncl.throttle\r\n:-1\r\n*2\r\n+write\r\n+fast\r\n:1\r\n:1\r\n:1\r\n"},
		{words("COMMAND INFO get quit"), "*2\r\n*-1\r\n*6\r\n$4\r\nquit\r\n:-1\r\n*2\r\n+no_auth\r\n+fast\r\n:0\r\n:0\r\n:0\r\n"},
		{words("COMMAND DOCS ping get"), "*2\r\n$4\r\nping\r\n*4\r\n$7\r\nsummary\r\n$29\r\nAnswers PONG, or the message.\r\n$5\r\ngroup\r\n$10\r\nconnection\r\n"},
		{words("COMMAND GETKEYS"), "-ERR unknown subcommand 'GETKEYS' of COMMAND (there are COUNT, LIST, INFO and DOCS)\r\n"},
		{words("GET key"), "-ERR unknown command 'GET', with args beginning with: 'key' \r\n"},
		{encode("a\r\n-b"), "-ERR unknown command 'a  -b', with args beginning with: \r\n"},
		{words("CLUSTER SLOTS"), "-ERR unknown command 'CLUSTER', with args beginning with: 'SLOTS' \r\n"},
		{words("AUTH secret"), "-" + noPassword + "\r\n"},
		{words("AUTH default secret"), "+OK\r\n"},
		{words("AUTH someone secret"), "-" + wrongPassword + "\r\n"},
		{words("AUTH a b c"), "-ERR syntax error\r\n"},
		{words("HELLO 4"), "-NOPROTO unsupported protocol version\r\n"},
		{words("HELLO x"), "-ERR Protocol version is not an integer or out of range\r\n"},
		{words("HELLO 3 AUTH default"), "-ERR Syntax error in HELLO option 'AUTH'\r\n"},
		{words("HELLO 3 SETNAME b AUTH nobody x"), "-" + wrongPassword + "\r\n"},
		{words("HELLO"), hello2(2)},
		{words("HELLO 3 AUTH default x SETNAME b"), "%7\r\n" + strings.Replace(hello2(3), "*14\r\n", "", 1)},
		{words("CLIENT GETNAME"), "$1\r\nb\r\n"},
		{words("COMMAND INFO get"), "*1\r\n_\r\n"},
		{words("COMMAND DOCS echo"), "%1\r\n$4\r\necho\r\n%2\r\n$7\r\nsummary\r\n$20\r\nAnswers the message.\r\n$5\r\ngroup\r\n$10\r\nconnection\r\n"},
		{words("RESET"), "+RESET\r\n"},
		{words("CLIENT GETNAME"), "$-1\r\n"},
		{"*0\r\n*-1\r\n\r\nPING\r\n", "+PONG\r\n"},
	} {
		c.send(step.sent)
		c.want(step.want)
		if t.Failed() {
			t.Fatalf("after %q", step.sent)
		}
	}
	c.send(words("QUIT") + words("PING"))
	c.wantEnd("+OK\r\n")
}

func hello2(proto byte) string {
	return "*14\r\n$6\r\nserver\r\n$5\r\nstint\r\n$7\r\nversion\r\n$5\r\n7.2.0\r\n$5\r\nproto\r\n:" + string('0'+proto) +
		"\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
}

func TestTokenIsAskedFor(t *testing.T) {
	c := run(t, Options{Token: secret.Fixed("s3cret")}).dial()
	const noAuth = "-NOAUTH Authentication required.\r\n"
	for _, step := range []struct{ sent, want string }{
		{words("PING"), noAuth},
		{words("CL.THROTTLE k 1 1 1"), noAuth},
		{words("GET k"), noAuth},
		{words("AUTH s3cre"), "-" + wrongPassword + "\r\n"},
		{words("AUTH other s3cret"), "-" + wrongPassword + "\r\n"},
		{words("HELLO 3"), "-" + helloFirst + "\r\n"},
		{words("HELLO 3 AUTH default no"), "-" + wrongPassword + "\r\n"},
		{words("PING"), noAuth},
		{words("AUTH s3cret"), "+OK\r\n"},
		{words("CL.THROTTLE k 1 1 1"), five(0, 2, 1, -1, 1)},
		{words("RESET"), "+RESET\r\n"},
		{words("PING"), noAuth},
		{words("HELLO 2 AUTH default s3cret"), hello2(2)},
		{words("PING"), "+PONG\r\n"},
		{words("QUIT"), "+OK\r\n"},
	} {
		c.send(step.sent)
		c.want(step.want)
	}
}

func TestInfoSaysThatNothingIsLoading(t *testing.T) {
	c := run(t, Options{}).dial()
	c.send(words("INFO") + words("QUIT"))
	answer := make([]byte, 400)
	n, err := c.reader.Read(answer)
	if text := string(answer[:n]); err != nil || !strings.Contains(text, "\r\nloading:0\r\n") || !strings.Contains(text, "connected_clients:1\r\n") {
		t.Errorf("%q, %v", text, err)
	}
}
