package resp

import (
	"bytes"
	"strings"
)

// maxName bounds the name of a connection, in bytes.
const maxName = 256

// client answers CLIENT and its subcommands.
func (c *conn) client(args [][]byte) {
	word, rest := strings.ToLower(shown(args[1])), args[2:]
	switch {
	case word == "id" && len(rest) == 0:
		c.work.out = appendInt(c.work.out, c.id)
	case word == "getname" && len(rest) == 0:
		c.getName()
	case word == "setname" && len(rest) == 1:
		c.setName(rest[0])
	case word == "setinfo" && len(rest) == 2:
		c.setInfo(rest[0])
	case clientIgnores(word) && len(rest) >= 1:
		c.ok()
	case word == "id" || word == "getname" || word == "setname" || word == "setinfo" || clientIgnores(word):
		c.error("ERR wrong number of arguments for 'client|" + word + "' command")
	default:
		c.error("ERR unknown subcommand '" + shown(args[1]) + "' of CLIENT (there are ID, GETNAME, SETNAME and SETINFO)")
	}
}

// clientIgnores reports whether CLIENT accepts a subcommand without effect. These
// control client-side caching, the closing of connections to free memory, and the age
// of keys; this server has none of them.
func clientIgnores(word string) bool {
	return word == "tracking" || word == "no-evict" || word == "no-touch"
}

func (c *conn) getName() {
	if c.name == "" {
		c.work.out = c.appendNull(c.work.out)
		return
	}
	c.work.out = appendBulk(c.work.out, c.name)
}

func (c *conn) setName(name []byte) {
	if !nameable(name) {
		c.error(badName)
		return
	}
	c.name = string(name)
	c.ok()
}

// nameable reports whether a name is valid for a connection.
func nameable(name []byte) bool {
	for _, b := range name {
		if b < '!' || b > '~' {
			return false
		}
	}
	return len(name) <= maxName
}

// setInfo accepts and ignores the name and version of the client library.
func (c *conn) setInfo(what []byte) {
	if !bytes.EqualFold(what, []byte("lib-name")) && !bytes.EqualFold(what, []byte("lib-ver")) {
		c.error("ERR Unrecognized option '" + shown(what) + "'")
		return
	}
	c.ok()
}

// command answers COMMAND, and COMMAND COUNT, LIST, INFO and DOCS.
func (c *conn) command(args [][]byte) {
	if len(args) == 1 {
		c.describe(c.server.commands)
		return
	}
	chosen := c.server.chosen(args[2:])
	switch word := strings.ToLower(shown(args[1])); word {
	case "count":
		c.work.out = appendInt(c.work.out, int64(len(c.server.commands)))
	case "list":
		c.list()
	case "info":
		c.describe(chosen)
	case "docs":
		c.document(chosen)
	default:
		c.error("ERR unknown subcommand '" + shown(args[1]) + "' of COMMAND (there are COUNT, LIST, INFO and DOCS)")
	}
}

// chosen returns the commands of these names, nil for unknown names; all commands if
// names is empty.
func (s *Server) chosen(names [][]byte) []*command {
	if len(names) == 0 {
		return s.commands
	}
	found := make([]*command, len(names))
	for i, name := range names {
		found[i] = s.find(name)
	}
	return found
}

func (c *conn) list() {
	out := appendArray(c.work.out, len(c.server.commands))
	for _, d := range c.server.commands {
		out = appendBulk(out, d.name)
	}
	c.work.out = out
}

// describe answers with the first six fields of COMMAND INFO, which every client
// understands.
func (c *conn) describe(commands []*command) {
	out := appendArray(c.work.out, len(commands))
	for _, d := range commands {
		if d == nil {
			out = c.appendNullArray(out)
			continue
		}
		key := int64(0)
		if d.keyed {
			key = 1
		}
		out = appendInt(appendBulk(appendArray(out, 6), d.name), int64(d.arity))
		out = appendSimple(appendSimple(appendArray(out, 2), d.flag()), "fast")
		out = appendInt(appendInt(appendInt(out, key), key), key)
	}
	c.work.out = out
}

func (d *command) flag() string {
	switch {
	case d.keyed:
		return "write"
	case d.open:
		return "no_auth"
	}
	return "readonly"
}

// document answers COMMAND DOCS for the commands that exist.
func (c *conn) document(commands []*command) {
	known := 0
	for _, d := range commands {
		if d != nil {
			known++
		}
	}
	out := c.appendMap(c.work.out, known)
	for _, d := range commands {
		if d == nil {
			continue
		}
		out = c.appendMap(appendBulk(out, d.name), 2)
		out = appendBulk(appendBulk(out, "summary"), d.summary)
		out = appendBulk(appendBulk(out, "group"), d.group())
	}
	c.work.out = out
}

func (d *command) group() string {
	if d.keyed {
		return "generic"
	}
	return "connection"
}
