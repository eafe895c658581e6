package redistest

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Do sends one command over a connection of its own and returns the reply as text: each
// element of an array on a line, nil as an empty text. It serves to set up and inspect
// servers; it is slow.
func (p *Process) Do(args ...string) (string, error) { return p.converse(args) }

// converse sends commands over one connection, each after the previous reply, and returns
// the last reply.
func (p *Process) converse(commands ...[]string) (reply string, err error) {
	conn, err := p.dial()
	if err != nil {
		return "", fmt.Errorf("%s to %s: %w", commands[0][0], p.Addr(), err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if password := p.password(); password != "" {
		commands = append([][]string{{"AUTH", password}}, commands...)
	}
	r := bufio.NewReader(conn)
	for _, args := range commands {
		if reply, err = exchange(conn, r, args); err != nil {
			return "", fmt.Errorf("%s to %s: %w", args[0], p.Addr(), err)
		}
	}
	return reply, nil
}

func (p *Process) dial() (net.Conn, error) {
	plain := net.Dialer{Timeout: patience}
	if p.tls == nil {
		return plain.Dial("tcp", p.Addr())
	}
	secure := tls.Dialer{NetDialer: &plain, Config: p.tls}
	return secure.Dial("tcp", p.Addr())
}

// Must is Do, but an error fails the test.
func (p *Process) Must(args ...string) string {
	p.t.Helper()
	reply, err := p.Do(args...)
	if err != nil {
		p.t.Fatal(err)
	}
	return reply
}

// Info returns one field of INFO, such as "role" or "used_memory", or an empty text if
// INFO does not have it.
func (p *Process) Info(field string) (string, error) {
	info, err := p.Do("INFO", "all")
	if err != nil {
		return "", err
	}
	return infoField(info, field), nil
}

func infoField(info, field string) string {
	for line := range strings.Lines(info) {
		if name, value, _ := strings.Cut(line, ":"); name == field {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// password returns the password that the server was started with.
func (p *Process) password() string {
	for i := range p.options[:max(0, len(p.options)-1)] {
		if p.options[i] == "--requirepass" {
			return p.options[i+1]
		}
	}
	return ""
}

func exchange(w io.Writer, r *bufio.Reader, args []string) (string, error) {
	request := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		request = fmt.Appendf(request, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := w.Write(request); err != nil {
		return "", err
	}
	return readReply(r)
}

// replyError is an error reply.
type replyError string

func (e replyError) Error() string { return string(e) }

// readReply reads one reply in the second version of the protocol.
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, rest := line[0], strings.TrimRight(line[1:], "\r\n")
	switch kind {
	case '+', ':':
		return rest, nil
	case '-':
		return "", replyError(rest)
	}
	n, err := strconv.Atoi(rest)
	switch {
	case err != nil:
		return "", fmt.Errorf("reply %q: %w", line, err)
	case n < 0:
		return "", nil
	case kind == '$':
		text := make([]byte, n+len("\r\n"))
		_, err := io.ReadFull(r, text)
		return string(text[:n]), err
	}
	return readArray(r, n)
}

// readArray reads the elements of an array. It returns the first error reply among them.
func readArray(r *bufio.Reader, n int) (string, error) {
	elements := make([]string, n)
	for i := range elements {
		var err error
		if elements[i], err = readReply(r); err != nil {
			return "", err
		}
	}
	return strings.Join(elements, "\n"), nil
}
