package redistest

import (
	"bufio"
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

//go:embed lua54.lua
var lua54 string

// Lua is an interpreter of Lua 5.4, which Dragonfly has, while Redis and Valkey have Lua
// 5.1. It runs scripts as a server would. Only the test's goroutine may use it.
type Lua struct {
	testing.TB

	// Answer returns the reply of the server to a command of a script, in the Redis protocol.
	Answer func(words []string) []byte

	in  io.Writer
	out *bufio.Reader
}

// NewLua starts an interpreter. numbers is the subtype of the numbers that struct.unpack
// returns: "float", as in Dragonfly, or "integer". It returns nil if lua5.4 is not installed.
func NewLua(tb testing.TB, numbers string) *Lua {
	tb.Helper()
	path, err := exec.LookPath("lua5.4")
	if err != nil {
		return nil
	}
	process := exec.CommandContext(tb.Context(), path, "-e", "arg = {'"+numbers+"'}\n"+lua54)
	in, err := process.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := process.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	var log bytes.Buffer
	process.Stderr = &log
	if err := process.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = in.Close()
		if _ = process.Wait(); log.Len() > 0 { // the end of the test kills the process
			tb.Errorf("lua5.4: %s", &log)
		}
	})
	return &Lua{TB: tb, in: in, out: bufio.NewReader(out)}
}

// Eval returns the strings that a script returns.
func (l *Lua) Eval(text string, keys, args []string) []string {
	l.Helper()
	l.write(EncodeWords(slices.Concat([]string{text, strconv.Itoa(len(keys))}, keys, args)))
	for {
		message := l.read()
		switch words := message[1:]; message[0] {
		case "call":
			l.write(l.Answer(words))
		case "done":
			return words
		default:
			l.Fatalf("a script fails on Lua 5.4: %s", words)
		}
	}
}

func (l *Lua) write(data []byte) {
	l.Helper()
	if _, err := l.in.Write(data); err != nil {
		l.Fatal(err)
	}
}

// read reads a message of the interpreter.
func (l *Lua) read() (words []string) {
	l.Helper()
	var data bytes.Buffer
	if err := copyReply(&data, l.out); err != nil {
		l.Fatal("lua5.4 ended:", err)
	}
	_, rest, _ := strings.Cut(data.String(), "\r\n")
	for rest != "" {
		length, text, _ := strings.Cut(rest, "\r\n")
		n, err := strconv.Atoi(length[1:])
		if err != nil {
			l.Fatal(err)
		}
		words, rest = append(words, text[:n]), text[n+2:]
	}
	return words
}

// Forward returns an Answer that sends the commands to a database of a server.
func Forward(tb testing.TB, addr, database string) func(words []string) []byte {
	tb.Helper()
	server, err := (&net.Dialer{}).DialContext(tb.Context(), "tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = server.Close() })
	replies := bufio.NewReader(server)
	forward := func(words []string) []byte {
		tb.Helper()
		var reply bytes.Buffer
		_, err := server.Write(EncodeWords(words))
		if err == nil {
			err = copyReply(&reply, replies)
		}
		if err != nil {
			tb.Fatal(err)
		}
		return reply.Bytes()
	}
	forward([]string{"SELECT", database})
	return forward
}

// EncodeWords returns an array of strings in the Redis protocol.
func EncodeWords(words []string) []byte {
	data := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		data = fmt.Appendf(data, "$%d\r\n%s\r\n", len(w), w)
	}
	return data
}

// copyReply copies one value in the Redis protocol.
func copyReply(to *bytes.Buffer, from *bufio.Reader) error {
	line, err := from.ReadString('\n')
	if err != nil {
		return err
	}
	to.WriteString(line)
	if line[0] != '$' && line[0] != '*' {
		return nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	if err != nil || n < 0 {
		return err
	}
	if line[0] == '$' {
		_, err = io.CopyN(to, from, int64(n)+2)
		return err
	}
	for range n {
		if err := copyReply(to, from); err != nil {
			return err
		}
	}
	return nil
}
