package resp

import (
	"bytes"
)

// The errors of a Redis server, verbatim, because clients check their codes.
const (
	wrongPassword = "WRONGPASS invalid username-password pair or user is disabled."
	noPassword    = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
	helloFirst    = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
	badName       = "ERR Client names cannot contain spaces, newlines or special characters."
)

// auth answers AUTH [user] password.
func (c *conn) auth(args [][]byte) {
	user, password := []byte("default"), args[len(args)-1]
	if len(args) == 3 {
		user = args[1]
	}
	switch {
	case len(args) > 3:
		c.error("ERR syntax error")
	case len(args) == 2 && c.server.options.Token == nil:
		c.error(noPassword)
	case !c.authenticate(user, password):
		c.refuse(wrongPassword)
	default:
		c.ok()
	}
}

// refuse answers a command without a valid token.
func (c *conn) refuse(problem string) {
	c.server.options.Refused()
	c.error(problem)
}

// authenticate reports whether user and password are valid, and then authorizes the
// connection. The only user is "default". The password must be the token; without a
// token any password is valid.
func (c *conn) authenticate(user, password []byte) bool {
	if string(user) != "default" || c.server.options.Token != nil && !c.server.options.Token.Is(password) {
		return false
	}
	c.authorized = true
	return true
}

// greeting is the parsed arguments of HELLO.
type greeting struct {
	proto          int
	user, password []byte // nil if not given
	name           []byte
}

// hello answers HELLO [2|3 [AUTH user password] [SETNAME name]]. It applies all
// arguments or none.
func (c *conn) hello(args [][]byte) {
	g, problem := readGreeting(args, c.proto)
	switch {
	case problem != "":
		c.error(problem)
	case g.user != nil && !c.authenticate(g.user, g.password):
		c.refuse(wrongPassword)
	case !c.authorized:
		c.refuse(helloFirst)
	default:
		c.proto = g.proto
		if g.name != nil {
			c.name = string(g.name)
		}
		c.greet()
	}
}

func readGreeting(args [][]byte, proto int) (g greeting, problem string) {
	g.proto = proto
	if len(args) == 1 {
		return g, ""
	}
	n, ok := parseInt(args[1])
	switch {
	case !ok:
		return g, "ERR Protocol version is not an integer or out of range"
	case n != 2 && n != 3:
		return g, "NOPROTO unsupported protocol version"
	}
	g.proto = int(n)
	for rest := args[2:]; len(rest) > 0; {
		took, problem := g.option(rest)
		if problem != "" {
			return g, problem
		}
		rest = rest[took:]
	}
	return g, ""
}

// option parses the option at the start of rest, and returns how many words it has.
func (g *greeting) option(rest [][]byte) (took int, problem string) {
	switch {
	case bytes.EqualFold(rest[0], []byte("AUTH")) && len(rest) >= 3:
		g.user, g.password = rest[1], rest[2]
		return 3, ""
	case bytes.EqualFold(rest[0], []byte("SETNAME")) && len(rest) >= 2:
		if g.name = rest[1]; !nameable(g.name) {
			return 0, badName
		}
		return 2, ""
	}
	return 0, "ERR Syntax error in HELLO option '" + shown(rest[0]) + "'"
}

// greet writes the server's description, the answer to HELLO.
func (c *conn) greet() {
	out := c.appendMap(c.work.out, 7)
	out = appendBulk(appendBulk(out, "server"), "stint")
	out = appendBulk(appendBulk(out, "version"), likeVersion)
	out = appendInt(appendBulk(out, "proto"), int64(c.proto))
	out = appendInt(appendBulk(out, "id"), c.id)
	out = appendBulk(appendBulk(out, "mode"), "standalone")
	out = appendBulk(appendBulk(out, "role"), "master")
	c.work.out = appendArray(appendBulk(out, "modules"), 0)
}
