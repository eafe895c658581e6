package resp

import (
	"bytes"
	"strconv"
	"strings"
)

// command is a command of the protocol.
type command struct {
	name    string // in lower case
	arity   int    // number of words, the name included; below 0: at least −arity
	open    bool   // may be sent before AUTH
	keyed   bool   // its first argument is a key
	summary string
	run     func(c *conn, args [][]byte)
}

// allCommands returns the commands in the order of COMMAND's answer.
func allCommands() []*command {
	return []*command{
		{throttleName, -1, false, true, "Decides whether a key may be used once more, and counts it.", nil}, // no function: handle queues the command
		{"ping", -1, false, false, "Answers PONG, or the message.", (*conn).ping},
		{"echo", 2, false, false, "Answers the message.", (*conn).echo},
		{"auth", -2, true, false, "Authenticates the connection.", (*conn).auth},
		{"hello", -1, true, false, "Chooses RESP2 or RESP3, and authenticates.", (*conn).hello},
		{"select", 2, false, false, "Chooses database 0, the only one.", (*conn).choose},
		{"client", -2, false, false, "Names the connection, or tells its name and number.", (*conn).client},
		{"command", -1, false, false, "Tells of the commands.", (*conn).command},
		{"info", -1, false, false, "Tells of the server.", (*conn).info},
		{"quit", -1, true, false, "Closes the connection.", (*conn).leave},
		{"reset", 1, true, false, "Makes the connection as if new.", (*conn).reset},
	}
}

// find returns the command of a name in any case, or nil.
func (s *Server) find(name []byte) *command {
	var lower [16]byte
	if len(name) > len(lower) {
		return nil
	}
	for i, b := range name {
		if 'A' <= b && b <= 'Z' {
			b |= 0x20
		}
		lower[i] = b
	}
	return s.byName[string(lower[:len(name)])]
}

func (d *command) takes(words int) bool {
	return words == d.arity || d.arity < 0 && words >= -d.arity
}

// run runs a command other than CL.THROTTLE.
func (c *conn) run(args [][]byte) {
	found := c.server.find(args[0])
	switch {
	case browser(args[0]):
		c.quit = true
	case !c.authorized && (found == nil || !found.open):
		c.refuse("NOAUTH Authentication required.")
	case found == nil:
		c.error(unknown(args))
	case !found.takes(len(args)):
		c.error("ERR wrong number of arguments for '" + found.name + "' command")
	default:
		found.run(c, args)
	}
}

// browser reports whether a command is a line of an HTTP request. Without this check a
// web page could make a browser send commands to a server that only local programs can
// reach. Redis has the same check.
func browser(name []byte) bool {
	return bytes.EqualFold(name, []byte("POST")) || bytes.EqualFold(name, []byte("Host:"))
}

// unknown returns the error text for an unknown command, in the form of Redis.
func unknown(args [][]byte) string {
	var b strings.Builder
	b.WriteString("ERR unknown command '" + shown(args[0]) + "', with args beginning with: ")
	for _, arg := range args[1:] {
		if b.Len() > 256 {
			break
		}
		b.WriteString("'" + shown(arg) + "' ")
	}
	return b.String()
}

func (c *conn) error(text string) { c.work.out = appendError(c.work.out, text) }
func (c *conn) ok()               { c.work.out = append(c.work.out, "+OK\r\n"...) }

func (c *conn) ping(args [][]byte) {
	switch len(args) {
	case 1:
		c.work.out = append(c.work.out, "+PONG\r\n"...)
	case 2:
		c.echo(args)
	default:
		c.error("ERR wrong number of arguments for 'ping' command")
	}
}

func (c *conn) echo(args [][]byte) { c.work.out = appendBulk(c.work.out, args[1]) }

// choose answers SELECT.
func (c *conn) choose(args [][]byte) {
	switch n, ok := parseInt(args[1]); {
	case !ok:
		c.error("ERR value is not an integer or out of range")
	case n != 0:
		c.error("ERR DB index is out of range")
	default:
		c.ok()
	}
}

// leave answers QUIT.
func (c *conn) leave([][]byte) {
	c.ok()
	c.quit = true
}

func (c *conn) reset([][]byte) {
	c.proto, c.name, c.authorized = 2, "", c.server.options.Token == nil
	c.work.out = appendSimple(c.work.out, "RESET")
}

// likeVersion is the version of Redis whose answers this server gives. Clients choose
// commands by it.
const likeVersion = "7.2.0"

// info answers INFO with the fields that clients check before they send other
// commands.
func (c *conn) info([][]byte) {
	c.work.out = appendBulk(c.work.out, "# Server\r\nredis_version:"+likeVersion+"\r\nredis_mode:standalone\r\nserver_name:stint\r\n"+
		"# Clients\r\nconnected_clients:"+strconv.Itoa(c.server.connections())+"\r\n# Persistence\r\nloading:0\r\n# Replication\r\nrole:master\r\n")
}

func (s *Server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.conns)
}
