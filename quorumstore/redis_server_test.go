package quorumstore

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

const (
	testMembers = 0xfedcba9876543210
	testSlack   = 3 * time.Second
	testTimeout = 10 * time.Second
)

// dialTest returns the client of a server that need not answer. change changes its options.
func dialTest(t *testing.T, addr string, change func(*Options)) *redisServer {
	t.Helper()
	o := &Options{Servers: []string{addr, "other:1", "other:2"}, Timeout: testTimeout}
	if change != nil {
		change(o)
	}
	if err := o.setDefaults(); err != nil {
		t.Fatal(err)
	}
	s := newRedisServer(addr, o)
	t.Cleanup(s.close)
	return s
}

func inTime(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// marked marks a server, and returns the mark.
func marked(t *testing.T, s *redisServer, incarnation int64) mark {
	t.Helper()
	now, err := s.mark(inTime(t), &markRequest{})
	if err != nil {
		t.Fatal(err)
	}
	m := mark{incarnation: incarnation, run: now.run, members: testMembers, birth: now.time, ever: true}
	set, err := s.mark(inTime(t), &markRequest{old: now.mark, new: m})
	if err != nil || !set.set || set.mark != m || set.unfit != nil {
		t.Fatalf("%+v %v", set, err)
	}
	return m
}

// calls makes operations on a server whose mark is m.
func calls(t *testing.T, s *redisServer, m mark, ops ...operation) *reply {
	t.Helper()
	r, err := s.call(inTime(t), &request{head: head{members: m.members, incarnation: m.incarnation, slack: testSlack}, ops: ops})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// started starts a server with a mark.
func started(t *testing.T) (*redistest.Process, *redisServer, mark) {
	t.Helper()
	p := redistest.Server(t)
	s := dialTest(t, p.Addr(), nil)
	return p, s, marked(t, s, 1<<52)
}

func wantError(t *testing.T, err error, code stint.Code, kind stint.Kind, text string) {
	t.Helper()
	e, ok := errors.AsType[*stint.Error](err)
	if !ok || e.Code != code || e.Kind != kind || !strings.Contains(e.Problem+"\n"+e.Mend, text) {
		t.Errorf("%v (%+v), want %v, %s and %q", err, e, code, kind, text)
	}
}

func TestARowIsWrittenAndRead(t *testing.T) {
	p, s, m := started(t)
	first := calls(t, s, m, operation{key: "k"})
	if want := (ballot{max(m.birth+testSlack.Microseconds(), first.about.time-testSlack.Microseconds()), maxID}); first.results[0].row.promise != want || first.results[0].row.parts != nil {
		t.Fatalf("the floor is %+v, want %+v", first.results[0].row, want)
	}
	b := ballot{first.results[0].row.promise.t + 1, 7}
	next := ballot{b.t + 1, 7}
	if r := calls(t, s, m, operation{verb: verbPrepare, key: "k", ballot: ballot{b.t - 1, 7}}).results[0]; !r.refused {
		t.Error("a ballot below the floor is promised")
	}
	if r := calls(t, s, m, operation{verb: verbPrepare, key: "k", ballot: b}).results[0]; r.refused || r.row.parts != nil {
		t.Errorf("%+v", r)
	}
	if r := calls(t, s, m, operation{verb: verbPrepare, key: "k", ballot: b}).results[0]; !r.refused || r.row.promise != b {
		t.Errorf("%+v", r)
	}
	parts := []part{{class: 3, ballot: b, expires: b.t + 8e6, data: []byte("three")}, {class: 9, ballot: b, expires: b.t + 5e6, data: []byte{}}}
	accept := operation{verb: verbAccept, key: "k", ballot: b, next: next, upTo: 9, parts: parts}
	if r := calls(t, s, m, accept).results[0]; r.refused || r.err != nil {
		t.Errorf("%+v", r)
	}
	if r := calls(t, s, m, accept).results[0]; !r.refused || r.row.promise != next || r.row.parts != nil {
		t.Errorf("a second accept: %+v", r)
	}
	if got := calls(t, s, m, operation{key: "k"}).results[0].row; !reflect.DeepEqual(got, row{next, parts}) {
		t.Errorf("%+v", got)
	}
	low := []part{{class: 4, ballot: next, expires: b.t + 16e6, data: []byte("four")}}
	calls(t, s, m, operation{verb: verbAccept, key: "k", ballot: next, upTo: 4, parts: low})
	if got := calls(t, s, m, operation{key: "k"}).results[0].row; !reflect.DeepEqual(got, row{next, append(low, parts[1])}) {
		t.Errorf("the row after an accept of its lower classes: %+v", got)
	}
	expires := time.UnixMicro(b.t + 16e6).Add(testSlack)
	least := time.Until(expires)
	got, err := time.ParseDuration(p.Must("PTTL", "stint:k") + "ms")
	if most := time.Until(expires) + 2*time.Millisecond; err != nil || got > least+2*time.Millisecond || got < most-time.Second {
		t.Errorf("the row expires in %v, want about %v: %v", got, least, err)
	}
}

func TestAServerChecksWhatARequestSaysOfIt(t *testing.T) {
	p, s, m := started(t)
	for name, c := range map[string]struct {
		change func(*head)
		want   status
	}{
		"its mark":            {func(*head) {}, statusOK},
		"any incarnation":     {func(h *head) { h.incarnation = 0 }, statusOK},
		"another incarnation": {func(h *head) { h.incarnation++ }, statusOtherIncarnation},
		"other members":       {func(h *head) { h.members++ }, statusOtherMembers},
		"in time":             {func(h *head) { h.last = time.Now().Add(time.Hour).UnixMicro() }, statusOK},
		"late":                {func(h *head) { h.last = m.birth - 1 }, statusLate},
	} {
		h := head{members: m.members, incarnation: m.incarnation, slack: testSlack}
		c.change(&h)
		r, err := s.call(inTime(t), &request{head: h, ops: []operation{{verb: verbPrepare, key: name, ballot: ballot{m.birth + 1e9, 1}}}})
		if err != nil {
			t.Fatal(err)
		}
		if a := r.about; a.status != c.want || a.incarnation != m.incarnation || a.birth != m.birth || !a.ever || a.time < m.birth {
			t.Errorf("%s: %+v", name, a)
		}
		written := p.Must("EXISTS", "stint:"+name) == "1"
		if written != (c.want == statusOK) || (len(r.results) > 0) != written {
			t.Errorf("%s: written %v, %d results", name, written, len(r.results))
		}
	}
}

func TestARestartedServerIsUnborn(t *testing.T) {
	p, s, m := started(t)
	calls(t, s, m, operation{verb: verbPrepare, key: "k", ballot: ballot{m.birth + 1e9, 1}})
	p.Must("CONFIG", "SET", "save", "")
	stored := p.Must("GET", "stint:@quorum")
	p.Restart()
	p.Must("SET", "stint:@quorum", stored) // as from a disk
	_, err := s.call(inTime(t), &request{head: head{members: m.members}, ops: []operation{{key: "k"}}})
	if err == nil || stint.CodeOf(err) != stint.CodeTimeout {
		t.Errorf("a call on a connection to the old process: %v", err)
	}
	r, err := s.call(inTime(t), &request{head: head{members: m.members}, ops: []operation{{key: "k"}}})
	if err != nil || r.about.status != statusUnborn || r.about.incarnation != 0 || r.results != nil {
		t.Fatalf("%+v %v", r, err)
	}
	known, err := s.mark(inTime(t), &markRequest{})
	if err != nil || known.mark != m || known.run == m.run {
		t.Fatalf("%+v %v", known, err)
	}
	if again, err := s.mark(inTime(t), &markRequest{old: m, new: mark{incarnation: 5, run: m.run, members: testMembers, birth: known.time}}); err != nil || again.set {
		t.Errorf("marked for a process that has ended: %+v %v", again, err)
	}
	born := mark{incarnation: 5, run: known.run, members: testMembers, birth: known.time}
	if again, err := s.mark(inTime(t), &markRequest{old: mark{}, new: born}); err != nil || again.set || again.mark != m {
		t.Errorf("marked as if it had no mark: %+v %v", again, err)
	}
	if again, err := s.mark(inTime(t), &markRequest{old: m, new: born}); err != nil || !again.set {
		t.Errorf("%+v %v", again, err)
	}
	if r := calls(t, s, born, operation{key: "k"}); r.about.status != statusOK || r.about.ever {
		t.Errorf("%+v", r.about)
	}
}

func TestAnEmptyServerHasNoRow(t *testing.T) {
	p := redistest.Server(t)
	s := dialTest(t, p.Addr(), func(o *Options) { o.Prefix = "a[b" })
	p.Must("SET", "other", "program")
	empty := func() bool {
		r, err := s.mark(inTime(t), &markRequest{search: true})
		if err != nil {
			t.Fatal(err)
		}
		return r.empty
	}
	if !empty() {
		t.Error("a server without rows is not empty")
	}
	hasty, cancel := context.WithTimeout(t.Context(), testTimeout/5) // a check has less time than a call may take
	defer cancel()
	if r, err := s.mark(hasty, &markRequest{search: true}); err != nil || !r.empty {
		t.Errorf("within the time of a check: %+v %v", r, err)
	}
	marked(t, s, 1)
	p.Must("SET", "a[b:longer:=k", "of another prefix")
	p.Must("SET", "a[b:longer:@quorum", "of another prefix")
	p.Must("DEL", "a[b:@quorum")
	if !empty() {
		t.Error("a server with rows of a longer prefix is not empty")
	}
	m := marked(t, s, 1)
	calls(t, s, m, operation{verb: verbPrepare, key: "=k", ballot: ballot{m.birth + 1e9, 1}})
	p.Must("DEL", "a[b:@quorum")
	if empty() {
		t.Error("a server with a row is empty")
	}
}

// A server with too many keys to search is not called one with rows.
func TestAServerIsNotSearchedInTime(t *testing.T) {
	_, s, _ := started(t)
	past, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	re := &markReply{}
	err := s.do(inTime(t), false, func(c *conn) error { return s.search(past, c, re) })
	if err != nil || re.empty || !re.unsearched {
		t.Errorf("%+v %v", re, err)
	}
	b := newBackend([]server{s}, backendOptions{})
	wantError(t, b.notNew([]*markReply{re}), stint.CodeInvalid, "", s.name()+" has too many keys")
}

// A mark that comes late is refused: the server may have been marked, used and emptied since.
func TestALateMarkIsRefused(t *testing.T) {
	_, s, m := started(t)
	now, err := s.mark(inTime(t), &markRequest{})
	if err != nil {
		t.Fatal(err)
	}
	next := m
	next.incarnation++
	if re, err := s.mark(inTime(t), &markRequest{old: m, new: next, last: now.time - 1}); err != nil || re.set || re.mark != m {
		t.Errorf("late: %+v %v", re, err)
	}
	if re, err := s.mark(inTime(t), &markRequest{old: m, new: next, last: now.time + 1e9}); err != nil || !re.set || re.mark != next {
		t.Errorf("in time: %+v %v", re, err)
	}
}

// A mark of no process makes a server unborn, and it can be marked again.
func TestADisownedServerIsUnborn(t *testing.T) {
	_, s, m := started(t)
	disowned := m
	disowned.run = disownedRun(m.run)
	if re, err := s.mark(inTime(t), &markRequest{old: m, new: disowned}); err != nil || !re.set || re.mark != disowned || re.incarnation() != 0 {
		t.Fatalf("%+v %v", re, err)
	}
	if r, err := s.call(inTime(t), &request{head: head{members: m.members}, ops: []operation{{key: "k"}}}); err != nil || r.about.status != statusUnborn {
		t.Errorf("%+v %v", r, err)
	}
	if re, err := s.mark(inTime(t), &markRequest{old: disowned, new: m}); err != nil || !re.set {
		t.Errorf("%+v %v", re, err)
	}
}

func TestAWalkFindsAllRows(t *testing.T) {
	p, s, m := started(t)
	p.Must("SET", "other", "program")
	p.Must("SET", "stint:longer:=k", "of another prefix")
	p.Must("SET", "stint:longer:@quorum", "of another prefix")
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprintf("=k%02d", i))
		calls(t, s, m, operation{verb: verbPrepare, key: want[i], ballot: ballot{m.birth + 1e9, 1}})
	}
	found := map[string]bool{}
	r := &scanRequest{head: head{members: m.members, incarnation: m.incarnation}, count: 10}
	for pages := 1; ; pages++ {
		re, err := s.scan(inTime(t), r)
		if err != nil || re.about.status != statusOK {
			t.Fatalf("%+v %v", re, err)
		}
		for _, key := range re.keys {
			found[key] = true
		}
		if r.cursor = re.next; r.cursor == "" {
			if pages < 3 {
				t.Errorf("%d pages", pages)
			}
			break
		}
	}
	if len(found) != len(want) || !found[want[99]] {
		t.Errorf("%d rows are found, want %d: %v", len(found), len(want), found)
	}
	r = &scanRequest{head: head{members: 1}}
	if re, err := s.scan(inTime(t), r); err != nil || re.about.status != statusOtherMembers || re.keys != nil {
		t.Errorf("%+v %v", re, err)
	}
}

func TestAWrongRowFailsItsKeyAlone(t *testing.T) {
	p, s, m := started(t)
	b := ballot{m.birth + 1e9, 1}
	p.Must("SET", "stint:short", "\x01abc")
	p.Must("SET", "stint:version", strings.Repeat("\x02", 60))
	p.Must("SET", "stint:parts", "\x01"+strings.Repeat("\x00", 21)+"\x3f"+strings.Repeat("x", 30))
	p.Must("RPUSH", "stint:list", "x")
	for _, verb := range []verb{verbRead, verbPrepare, verbAccept} {
		var ops []operation
		for _, key := range []string{"good", "short", "version", "parts", "list", "last"} {
			ops = append(ops, operation{verb: verb, key: key, ballot: b, upTo: 3, parts: []part{{class: 3, ballot: b}}})
		}
		for i, r := range calls(t, s, m, ops...).results {
			kind := map[string]stint.Kind{"short": stint.KindCorrupt, "version": stint.KindCorrupt, "parts": stint.KindCorrupt, "list": stint.KindWrongType}[ops[i].key]
			if e, _ := errors.AsType[*stint.Error](r.err); (e == nil) != (kind == "") || e != nil && e.Kind != kind {
				t.Errorf("verb %d of %s: %v, want %s", verb, ops[i].key, r.err, kind)
			}
		}
		b.t++
	}
}

func TestACallHasManyKeys(t *testing.T) {
	p, s, m := started(t)
	p.Must("SCRIPT", "FLUSH")
	var ops []operation
	for i := range 200 {
		b := ballot{m.birth + 1e9, 1}
		ops = append(ops, operation{verb: verbAccept, key: fmt.Sprintf("k%03d\x00\r\n\xff", i), ballot: b, upTo: maxClass, parts: []part{{class: maxClass, ballot: b, data: slices.Repeat([]byte{byte(i)}, i*50)}}})
	}
	calls(t, s, m, ops...)
	for i := range ops {
		ops[i] = operation{key: ops[i].key}
	}
	for i, r := range calls(t, s, m, ops...).results {
		if len(r.row.parts) != 1 || len(r.row.parts[0].data) != i*50 {
			t.Fatalf("row %d: %+v", i, r.row)
		}
	}
}

func TestServersThatMayForgetAreRefused(t *testing.T) {
	p, s, m := started(t)
	p.Must("CONFIG", "SET", "maxmemory", "100mb")
	p.Must("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	read := &request{head: head{members: m.members}, ops: []operation{{key: "k"}}}
	fresh := dialTest(t, p.Addr(), nil)
	_, err := fresh.call(inTime(t), read)
	wantError(t, err, stint.CodeUnavailable, "eviction", "maxmemory-policy noeviction")
	re, err := fresh.mark(inTime(t), &markRequest{})
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, re.unfit, stint.CodeUnavailable, "eviction", "allkeys-lru")
	s.checked.Store(0) // long ago
	if _, err := s.call(inTime(t), read); err != nil {
		t.Error(err)
	}
	_, err = s.call(inTime(t), read)
	wantError(t, err, stint.CodeUnavailable, "eviction", "maxmemory-policy noeviction")
	p.Must("CONFIG", "SET", "maxmemory-policy", "noeviction")
	s.checked.Store(0)
	_, _ = s.call(inTime(t), read) // asks again
	if _, err := s.call(inTime(t), read); err != nil {
		t.Error(err)
	}
}

func TestWhatServersSayOfThemselves(t *testing.T) {
	s := dialTest(t, "h:1", nil)
	for info, kind := range map[string]stint.Kind{
		"redis_version:7.2.0\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\nrole:master\r\nevicted_keys:0\r\n": "",
		"redis_version:6.2.7\r\nmaxmemory:9\r\nmaxmemory_policy:noeviction\r\n":                                   "",
		"redis_version:6.0.16\r\n":                                                "version",
		"redis_version:7.0.0\r\nrole:slave\r\n":                                   "readonly",
		"redis_version:7.0.0\r\ncluster_enabled:1\r\n":                            "cluster",
		"redis_version:7.0.0\r\nevicted_keys:3\r\n":                               "eviction",
		"redis_version:7.0.0\r\nmaxmemory:5\r\nmaxmemory_policy:volatile-ttl\r\n": "eviction",
	} {
		e, _ := errors.AsType[*stint.Error](s.fits(info))
		if (e == nil) != (kind == "") || e != nil && e.Kind != kind {
			t.Errorf("%q: %v, want %s", info, e, kind)
		}
	}
}

// A call that was made is answered, also if the server then refuses to say what it is.
func TestACallIsAnsweredWithoutInfo(t *testing.T) {
	p := redistest.Server(t)
	m := marked(t, dialTest(t, p.Addr(), nil), 1<<52)
	p.Must("ACL", "SETUSER", "node", "on", ">node", "~*", "+@all")
	s := dialTest(t, p.Addr(), func(o *Options) { o.Username, o.Password = "node", "node" })
	calls(t, s, m, operation{key: "k"})
	p.Must("ACL", "SETUSER", "node", "-info")
	s.checked.Store(0) // long ago
	b := ballot{m.birth + 1e9, 7}
	if r := calls(t, s, m, operation{verb: verbPrepare, key: "k", ballot: b}).results[0]; r.refused || r.err != nil {
		t.Errorf("%+v", r)
	}
	if r := calls(t, s, m, operation{key: "k"}).results[0]; r.row.promise != b {
		t.Errorf("the promise is %+v", r.row.promise)
	}
}

func TestErrorsOfAServerSayWhatToDo(t *testing.T) {
	p := redistest.Server(t, "--requirepass", "right")
	p.Must("ACL", "SETUSER", "weak", "on", ">weak", "~*", "+@all", "-eval", "-evalsha")
	p.Must("ACL", "SETUSER", "narrow", "on", ">narrow", "~other:*", "+@all")
	p.Must("ACL", "SETUSER", "readers", "on", ">readers", "~*", "+@all", "-set")
	for user, c := range map[string]struct {
		kind stint.Kind
		text string
	}{
		"":              {"noauth", "STINT_STORE_PASSWORD_FILE"},
		":wrong":        {"noauth", "STINT_STORE_PASSWORD_FILE"},
		"weak:weak":     {"noperm", "+evalsha"},
		"narrow:narrow": {"noperm", "+evalsha"},
		":right":        {"", ""},
	} {
		s := dialTest(t, p.Addr(), func(o *Options) { o.Username, o.Password, _ = strings.Cut(user, ":") })
		r, err := s.call(inTime(t), &request{head: head{members: 1}, ops: []operation{{key: "k"}}})
		if c.kind == "" {
			if err != nil || r.about.status != statusUnborn {
				t.Errorf("%s: %+v %v", user, r, err)
			}
			continue
		}
		wantError(t, err, stint.CodeUnavailable, c.kind, c.text)
		if strings.Contains(fmt.Sprint(err), "wrong") && strings.Contains(err.Error(), ":wrong") {
			t.Error("the error shows the password:", err)
		}
	}
	right := dialTest(t, p.Addr(), func(o *Options) { o.Password = "right" })
	m := marked(t, right, 1)
	readers := dialTest(t, p.Addr(), func(o *Options) { o.Username, o.Password = "readers", "readers" })
	_, err := readers.mark(inTime(t), &markRequest{old: m, new: m})
	wantError(t, err, stint.CodeUnavailable, "noperm", "+set")
	e := calls(t, readers, m, operation{verb: verbPrepare, key: "k", ballot: ballot{m.birth + 1e9, 1}}).results[0].err
	wantError(t, e, stint.CodeUnavailable, "noperm", "+set")
}

func TestCallsOfAClosedServerFailAtOnce(t *testing.T) {
	_, s, m := started(t)
	s.close()
	_, err := s.call(inTime(t), &request{head: head{members: m.members}})
	wantError(t, err, stint.CodeUnavailable, "connection", "closed")
}

func TestAFrozenServerHoldsFewCalls(t *testing.T) {
	p, s, m := started(t)
	p.Freeze()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	const calls = defaultConns + mostWaiting + 50
	for range calls {
		go func() {
			_, err := s.call(ctx, &request{head: head{members: m.members}, ops: []operation{{key: "k"}}})
			failed <- err
		}()
	}
	for range calls - defaultConns - mostWaiting {
		wantError(t, <-failed, stint.CodeUnavailable, "connection", "busy")
	}
	cancel()
	for range defaultConns + mostWaiting {
		if err := <-failed; stint.CodeOf(err) != stint.CodeCanceled {
			t.Error(err)
		}
	}
	p.Thaw()
	redistest.Await(t, func() error {
		_, err := s.call(inTime(t), &request{head: head{members: m.members}, ops: []operation{{key: "k"}}})
		return err
	})
}

func TestAnUnansweredCallIsUnknown(t *testing.T) {
	p, _, m := started(t)
	proxy := redistest.Proxy(t, p.Addr())
	s := dialTest(t, proxy.Addr(), func(o *Options) { o.Timeout = 300 * time.Millisecond })
	calls(t, s, m, operation{key: "k"})
	proxy.DropReplies()
	prepare := &request{head: head{members: m.members, slack: testSlack}, ops: []operation{{verb: verbPrepare, key: "k", ballot: ballot{m.birth + 1e9, 1}}}}
	_, err := s.call(t.Context(), prepare)
	wantError(t, err, stint.CodeTimeout, "timeout", "")
	_, err = s.call(t.Context(), prepare)
	wantError(t, err, stint.CodeUnavailable, "connection", "")
	proxy.Heal()
	redistest.Await(t, func() error {
		r, err := s.call(t.Context(), prepare)
		if err == nil && !r.results[0].refused {
			t.Fatal("the first call was not made")
		}
		return err
	})
}

func TestTLSOfAServer(t *testing.T) {
	p, trusting := redistest.ServerTLS(t)
	s := dialTest(t, p.Addr(), func(o *Options) { o.TLS = trusting })
	marked(t, s, 1)
	plain := dialTest(t, p.Addr(), nil)
	_, err := plain.call(inTime(t), &request{})
	wantError(t, err, stint.CodeUnavailable, "connection", "TLS")
	trusting.RootCAs = nil
	_, err = dialTest(t, p.Addr(), func(o *Options) { o.TLS = trusting }).call(inTime(t), &request{})
	wantError(t, err, stint.CodeUnavailable, "tls", "certificate")
}
