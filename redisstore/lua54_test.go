package redisstore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

// lua54 runs scripts on Lua 5.4. Only the interpreter differs: the commands of the scripts go
// to another database of the same server.
type lua54 struct {
	*redistest.Lua

	forward  func(command []string) []byte
	numbers  string   // subtype of the numbers of struct.unpack: float or integer
	now      []string // what TIME replies
	commands []string // of the script, except TIME, quoted
}

// dialBoth starts a server, and returns it with two interpreters of Lua 5.4, if that is
// installed. Each script must return the same and run the same commands on all three.
// Dragonfly's struct.unpack returns floats, and another server's could return integers.
func dialBoth(t *testing.T) *scripts {
	t.Helper()
	addr := redistest.Server(t).Addr()
	s := dialScripts(t, addr)
	for database, numbers := range map[string]string{"1": "float", "2": "integer"} {
		l := &lua54{Lua: redistest.NewLua(t, numbers), numbers: numbers}
		if l.Lua == nil {
			t.Log("lua5.4 is not installed, so only the server runs the scripts")
			return s
		}
		l.forward = redistest.Forward(t, addr, database)
		l.Answer = func(words []string) []byte {
			if strings.EqualFold(words[0], "time") {
				return redistest.EncodeWords(l.now)
			}
			l.commands = append(l.commands, fmt.Sprintf("%q", words))
			return l.forward(words)
		}
		s.others = append(s.others, l)
	}
	return s
}

// recorded returns a script that runs another one and returns its reply, the last reply of
// TIME, and its other commands.
func recorded(text string) string {
	return `
		local commands, now, server = {}, {}, redis
		local function recording(call)
		  local function record(...)
		    local words, reply = {...}, call(...)
		    for i, word in ipairs(words) do words[i] = type(word) == 'number' and string.format('%.17g', word) or word end
		    if string.lower(words[1]) == 'time' then now = reply else commands[#commands + 1] = words end
		    return reply
		  end
		  return record
		end
		local redis = {call = recording(server.call), pcall = recording(server.pcall)}
		local function script()` + "\n" + text + `
		end
		local reply = script()
		return {type(reply) == 'table' and reply or {reply}, now, commands}`
}

// eval returns the strings that a script returns. With other interpreters it fails unless
// they return the same and run the same commands. same returns a reply without what may
// differ; nil: nothing may.
func (s *scripts) eval(text string, keys, args []string, same func(reply string) string) []string {
	s.Helper()
	if len(s.others) == 0 {
		return s.evalOnServer(text, keys, args).strings()
	}
	parts := s.evalOnServer(recorded(text), keys, args).array()
	want, now := parts[0].strings(), parts[1].strings()
	var commands []string
	for _, c := range parts[2].array() {
		commands = append(commands, fmt.Sprintf("%q", c.strings()))
	}
	for _, l := range s.others {
		l.now, l.commands = now, l.commands[:0]
		l.compare("replies", l.Eval(text, keys, args), want, same)
		l.compare("commands", l.commands, commands, nil)
	}
	return want
}

// compare reports the first difference from the server.
func (l *lua54) compare(what string, got, want []string, same func(text string) string) {
	l.Helper()
	if len(got) != len(want) {
		l.Errorf("Lua 5.4 with each number as %s has %d %s, and the server %d:\n%q\n%q", l.numbers, len(got), what, len(want), got, want)
		return
	}
	for i := range got {
		if got[i] != want[i] && (same == nil || same(got[i]) != same(want[i])) {
			l.Errorf("number %d of the %s on Lua 5.4 with each number as %s is\n%q, and on the server\n%q", i, what, l.numbers, got[i], want[i])
			return
		}
	}
}

func (s *scripts) evalOnServer(text string, keys, args []string) scriptReply {
	s.Helper()
	command := slices.Concat([]string{"EVAL", text, strconv.Itoa(len(keys))}, keys, args)
	message, err := s.client.Do(s.Context(), s.client.B().Arbitrary(command...).Build()).ToMessage()
	if err != nil {
		s.Fatal(err)
	}
	return scriptReply{s.TB, message}
}

// scriptReply is a reply of strings and arrays.
type scriptReply struct {
	testing.TB

	message rueidis.RedisMessage
}

func (r scriptReply) array() (items []scriptReply) {
	r.Helper()
	messages, err := r.message.ToArray()
	if err != nil {
		r.Fatal(err)
	}
	for _, m := range messages {
		items = append(items, scriptReply{r.TB, m})
	}
	return items
}

// strings returns the strings of an array, or a single one.
func (r scriptReply) strings() (list []string) {
	r.Helper()
	if r.message.IsArray() {
		for _, item := range r.array() {
			list = append(list, item.strings()...)
		}
		return list
	}
	text, err := r.message.ToString()
	if err != nil {
		r.Fatal(err)
	}
	return []string{text}
}

// withoutLifetimes returns a reply to the batch with 0 for what remained of the lifetimes of
// callers' keys, which fall while a test runs.
func (b *batch) withoutLifetimes(reply string) string {
	if b.plain {
		return reply
	}
	logs, bounded, callers := b.count()
	data := []byte(reply)
	for i := range callers {
		at := answerHead + len(b.order) + logs*logBytes + bounded + i*wroteBytes
		clear(data[at+1 : at+8])
	}
	return string(data)
}

// TestScriptsOnBothVersionsOfLua runs the scripts that the tests of the steps leave out, and
// each script by the clock of the server.
func TestScriptsOnBothVersionsOfLua(t *testing.T) {
	s := dialBoth(t)
	if len(s.others) == 0 {
		t.Skip("needs lua5.4 (run scripts/install-test-servers)")
	}
	e := encodingOf(t, Options{})
	for range 3 {
		for _, l := range everyKind(t) {
			one := e.newBatch()
			one.add([]stint.Claim{{Key: "one", Limit: l, Cost: 1}}, 0)
			s.run(one.invocation())
			several := e.newBatch()
			several.add([]stint.Claim{{Key: "several", Limit: l, Cost: 2}}, 0)
			several.add([]stint.Claim{{Key: "others", Limit: l, Cost: 9}}, 0)
			several.again(1)
			s.run(several.invocation())
		}
		s.run(invocation{script: clockScript})
		s.run(invocation{script: probeScript, keys: []string{"probe"}})
		s.run(invocation{script: newScript(aclText), args: []string{"acl"}})
	}
	limit := limitOf(t, stint.PerMinute(10))
	for _, plain := range []bool{true, false} {
		b := e.newBatch()
		for i := range maxPlain { // unpack has a limit, too
			b.add([]stint.Claim{{Key: fmt.Sprint("key", i), Limit: limit, Cost: 1}}, 0)
		}
		b.plain = plain
		s.run(b.invocation())
	}
	for _, beat := range [][]string{{"a", "60000000"}, {"b", "9000001"}, {"b", "3600000000"}, {"a", "0"}, {"c", "1"}, {"b", "0"}} {
		s.run(invocation{script: heartbeatScript, keys: []string{"nodes"}, args: beat})
	}
}

// TestOnceOnBothVersionsOfLua runs each mode of once.lua after each other mode, and again with
// another group.
func TestOnceOnBothVersionsOfLua(t *testing.T) {
	s := dialBoth(t)
	if len(s.others) == 0 {
		t.Skip("needs lua5.4 (run scripts/install-test-servers)")
	}
	e := encodingOf(t, Options{})
	modes := []onceMode{onceFind, onceDry, onceUndo, onceMark, onceUnmark, onceTake, onceAny}
	for _, l := range everyKind(t) {
		for _, first := range append([]onceMode{""}, modes...) {
			for _, mode := range modes {
				s.must("FLUSHALL")
				run := func(m onceMode, cost int64) {
					g := once(stint.Group{Claims: []stint.Claim{{Key: "k", Limit: l, Cost: cost}, {Key: "l", Limit: l, Cost: cost}}}, "id")
					b := e.newBatch()
					b.once = newOnce(&g)
					b.once.mode = m
					b.add(g.Claims, 0)
					s.run(b.invocation())
				}
				if first != "" {
					run(first, 2)
				}
				run(mode, 2)
				run(mode, 11)
			}
		}
	}
}
