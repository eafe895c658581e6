package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Do sends one command over a connection of its own and returns the reply as
// text: the elements of an array one to a line, nil as nothing. It is for
// setting up and looking, not for speed.
func (p *Process) Do(args ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", p.Addr(), patience)
	if err != nil {
		return "", fmt.Errorf("%s to %s: %w", args[0], p.Addr(), err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	r := bufio.NewReader(conn)
	if password := p.password(); password != "" {
		if _, err := exchange(conn, r, []string{"AUTH", password}); err != nil {
			return "", fmt.Errorf("AUTH to %s: %w", p.Addr(), err)
		}
	}
	reply, err := exchange(conn, r, args)
	if err != nil {
		return "", fmt.Errorf("%s to %s: %w", args[0], p.Addr(), err)
	}
	return reply, nil
}

// Must is Do for what cannot fail: an error fails the test.
func (p *Process) Must(args ...string) string {
	p.t.Helper()
	reply, err := p.Do(args...)
	if err != nil {
		p.t.Fatal(err)
	}
	return reply
}

// Info returns one field of INFO, such as "role" or "used_memory"; empty when
// the server does not say.
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

// password is the one that the server was started with.
func (p *Process) password() string {
	for i := range p.options[:max(0, len(p.options)-1)] {
		if p.options[i] == "--requirepass" {
			return p.options[i+1]
		}
	}
	return ""
}

func exchange(w io.Writer, r *bufio.Reader, args []string) (string, error) {
	request := fmt.Sprintf("*%d\r\n", len(args))
	for _, a := range args {
		request += fmt.Sprintf("$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(w, request); err != nil {
		return "", err
	}
	return readReply(r)
}

// replyError is an error that the server answered.
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

// readArray reads the elements of an array; an error among them is the error of
// all.
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
