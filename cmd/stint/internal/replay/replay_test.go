package replay

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stintdev/stint"
)

// twoASecond is a bucket of 2 that refills one unit in half a second.
func twoASecond(t *testing.T) Options {
	t.Helper()
	limit, err := stint.ParseLimit("2/s")
	if err != nil {
		t.Fatal(err)
	}
	return Options{Limit: limit, By: "key", Reorder: DefaultReorder}
}

func inputsOf(texts ...string) (inputs []Input) {
	for i, text := range texts {
		inputs = append(inputs, Input{Name: fmt.Sprintf("input%d", i+1), Reader: strings.NewReader(text)})
	}
	return inputs
}

// replayed returns the decision lines and the summary.
func replayed(t *testing.T, o Options, inputs ...Input) ([]string, Report) {
	t.Helper()
	var out strings.Builder
	o.Decisions = &out
	s, err := Run(t.Context(), o, inputs...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n"), s
}

// order returns the line numbers of decisions.
func order(t *testing.T, lines []string) (order []int64) {
	t.Helper()
	for _, line := range lines {
		f, err := readObject(line, nil)
		if err != nil {
			t.Fatal(err)
		}
		n, err := f.find("n").whole()
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, n)
	}
	return order
}

func TestDecisionLines(t *testing.T) {
	for name, test := range map[string]struct {
		events string
		want   []string
	}{
		"deniedUntilOneUnitIsBack": {
			`{"t_us":1000000,"key":"a"}` + "\n" + `{"t_us":1000000,"key":"a"}` + "\n" + `{"t_us":1100000,"key":"a"}` + "\n" + `{"t_us":1500000,"key":"a"}`,
			[]string{
				`{"n":1,"t_us":1000000,"rule":"","key":"a","allowed":true,"limit":2,"remaining":1,"retry_after_us":0,"reset_after_us":500000,"delay_us":0}`,
				`{"n":2,"t_us":1000000,"rule":"","key":"a","allowed":true,"limit":2,"remaining":0,"retry_after_us":0,"reset_after_us":1000000,"delay_us":0}`,
				`{"n":3,"t_us":1100000,"rule":"","key":"a","allowed":false,"limit":2,"remaining":0,"retry_after_us":400000,"reset_after_us":900000,"delay_us":0}`,
				`{"n":4,"t_us":1500000,"rule":"","key":"a","allowed":true,"limit":2,"remaining":0,"retry_after_us":0,"reset_after_us":1000000,"delay_us":0}`,
			},
		},
		"neverIsMinusOne": {
			`{"t_us":1000000,"key":"a","cost":3}`,
			[]string{`{"n":1,"t_us":1000000,"rule":"","key":"a","allowed":false,"limit":2,"remaining":2,"retry_after_us":-1,"reset_after_us":0,"delay_us":0}`},
		},
		"giveBackIsPaidOnce": {
			`{"t_us":1000000,"key":"a","cost":2}` + "\n" + `{"t_us":1250000,"key":"a","cost":-2,"at_us":1000000}`,
			[]string{
				`{"n":1,"t_us":1000000,"rule":"","key":"a","allowed":true,"limit":2,"remaining":0,"retry_after_us":0,"reset_after_us":1000000,"delay_us":0}`,
				`{"n":2,"t_us":1250000,"rule":"","key":"a","allowed":true,"limit":2,"remaining":2,"retry_after_us":0,"reset_after_us":0,"delay_us":0}`,
			},
		},
		"limitChangesFromTheEventOn": {
			`{"t_us":1000000,"key":"a","cost":2}` + "\n" + `{"t_us":1000001,"key":"a","limit":"4/s"}` + "\n" + `{"t_us":1250001,"key":"a"}`,
			[]string{
				`{"n":1,"t_us":1000000,"rule":"","key":"a","allowed":true,"limit":2,"remaining":0,"retry_after_us":0,"reset_after_us":1000000,"delay_us":0}`,
				`{"n":2,"t_us":1000001,"rule":"","key":"a","allowed":false,"limit":4,"remaining":0,"retry_after_us":249999,"reset_after_us":999999,"delay_us":0}`,
				`{"n":3,"t_us":1250001,"rule":"","key":"a","allowed":true,"limit":4,"remaining":0,"retry_after_us":0,"reset_after_us":999999,"delay_us":0}`,
			},
		},
		"keysAreWrittenAsJSON": {
			`{"t_us":1000000,"key":"\"é\\"}`,
			[]string{`{"n":1,"t_us":1000000,"rule":"","key":"\"é\\","allowed":true,"limit":2,"remaining":1,"retry_after_us":0,"reset_after_us":500000,"delay_us":0}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := replayed(t, twoASecond(t), inputsOf(test.events)...); !slices.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

func TestShapedTrafficHasDelays(t *testing.T) {
	limit, err := stint.Spec{Algorithm: stint.LeakyBucket, Limit: 2, Window: time.Second, Queue: 1}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	event := `{"t_us":1000000,"key":"a"}` + "\n"
	got, _ := replayed(t, Options{Limit: limit, By: "key"}, inputsOf(event+event+event)...)
	for i, want := range []string{`"delay_us":0}`, `"delay_us":500000}`, `"retry_after_us":500000,"reset_after_us":1000000,"delay_us":0}`} {
		if !strings.HasSuffix(got[i], want) {
			t.Errorf("event %d: %s, want …%s", i+1, got[i], want)
		}
	}
}

// lineAt returns an event of second s.
func lineAt(s float64) string { return fmt.Sprintf(`{"t_us":%d,"key":"a"}`+"\n", int64(s*1e6)) }

func TestOrder(t *testing.T) {
	at := func(seconds ...float64) string {
		var text strings.Builder
		for _, s := range seconds {
			text.WriteString(lineAt(s))
		}
		return text.String()
	}
	for name, test := range map[string]struct {
		reorder time.Duration
		inputs  []string
		want    []int64
		late    int64
	}{
		"tiesByLine":                     {time.Minute, []string{at(5, 5, 5)}, []int64{1, 2, 3}, 0},
		"tiesByInputThenLine":            {time.Minute, []string{at(5, 6), "\n" + at(5, 6)}, []int64{1, 2, 2, 3}, 0},
		"disorderWithinTheWindow":        {10 * time.Second, []string{at(20, 15, 18, 16)}, []int64{2, 4, 3, 1}, 0},
		"exactlyTheWindowIsInTime":       {10 * time.Second, []string{at(10, 20, 9.5, 10)}, []int64{3, 1, 4, 2}, 0},
		"oneMicrosecondMoreIsLate":       {10 * time.Second, []string{at(10, 20.000001, 9.5)}, []int64{1, 3, 2}, 1},
		"tooLateForTheWindowButNotLate":  {10 * time.Second, []string{at(10, 100, 50)}, []int64{1, 3, 2}, 0},
		"zeroKeepsTheOrder":              {0, []string{at(20, 15, 18, 16, 30)}, []int64{1, 2, 3, 4, 5}, 3},
		"zeroMergesByTimeAndKeepsOrders": {0, []string{at(10, 30, 20, 40), "\n\n\n\n" + at(15, 35)}, []int64{1, 5, 2, 3, 6, 4}, 1},
		"zeroTiesByInput":                {0, []string{at(5, 6), "\n" + at(5, 6)}, []int64{1, 2, 2, 3}, 0},
		"zeroMergesByTheMicrosecond":     {0, []string{at(1, 1.00008), "\n\n" + at(1.00004)}, []int64{1, 3, 2}, 0},
		"inputsOfSeveralDays":            {time.Minute, []string{at(200000, 200001), at(1, 100000, 300000)}, []int64{1, 2, 1, 2, 3}, 0},
		"inputsOutOfOrder":               {10 * time.Second, []string{at(3, 1, 30, 25), at(2, 28)}, []int64{2, 1, 1, 4, 2, 3}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			o := twoASecond(t)
			o.Reorder = test.reorder
			lines, s := replayed(t, o, inputsOf(test.inputs...)...)
			if got := order(t, lines); !slices.Equal(got, test.want) || s.Late != test.late {
				t.Errorf("got the lines in order %v and %d late, want %v and %d", got, s.Late, test.want, test.late)
			}
		})
	}
}

// Law 4: a late event is decided as at the newest time of its key. Its waits
// count from its own time.
func TestLateEventsDoNotTurnTimeBack(t *testing.T) {
	o := twoASecond(t)
	o.Reorder = 0
	got, _ := replayed(t, o, inputsOf(lineAt(10)+lineAt(10)+lineAt(9))...)
	want := `{"n":3,"t_us":9000000,"rule":"","key":"a","allowed":false,"limit":2,"remaining":0,"retry_after_us":1500000,"reset_after_us":2000000,"delay_us":0}`
	if got[2] != want {
		t.Errorf("got\n%s\nwant\n%s", got[2], want)
	}
}

// A memory store may evict a state that equals a fresh one. A replay must not,
// because its time can move back.
func TestReplayForgetsNothing(t *testing.T) {
	o := twoASecond(t)
	o.Reorder = 0
	var hours strings.Builder
	for s := range 10_000 {
		fmt.Fprintf(&hours, `{"t_us":%d,"key":"%d"}`+"\n", int64(100+s)*1e6, s)
	}
	got, _ := replayed(t, o, inputsOf(lineAt(10)+hours.String()+lineAt(9))...)
	want := `"allowed":true,"limit":2,"remaining":0,"retry_after_us":0,"reset_after_us":2000000,"delay_us":0}`
	if last := got[len(got)-1]; !strings.HasSuffix(last, want) {
		t.Errorf("got %s, want …%s", last, want)
	}
}

func TestBadLinesAreCountedAndShown(t *testing.T) {
	text := lineAt(1) + "nonsense\n" + `{"t_us":1,"key":"a","limit":"10/x"}` + "\n\n" + `{"t_us":2}` + "\n" + `{"t_us":3,"key":"\u0007"}` + "\n" + strings.Repeat("x\n", 7) + lineAt(2)
	lines, s := replayed(t, twoASecond(t), inputsOf(text)...)
	if len(lines) != 3 || s.Events != 3 || s.Missing != 1 || s.Unreadable != 10 || len(s.UnreadableLines) != shownBadLines {
		t.Fatalf("got %d decisions and %+v, want 3, and 5 shown of 10 bad lines", len(lines), s)
	}
	var shown []string
	for _, bad := range s.UnreadableLines {
		shown = append(shown, fmt.Sprintf("%s:%d: %s", bad.Input, bad.Line, bad.Reason))
	}
	for _, want := range []string{"input1:2: is not an access log line", "input1:6: key: has the control character U+0007"} {
		if !slices.ContainsFunc(shown, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("%q does not show %s…", shown, want)
		}
	}
}

func TestBadLinesAreCountedOnce(t *testing.T) {
	_, s := replayed(t, twoASecond(t), inputsOf("bad\n"+strings.Repeat(lineAt(1), 5*blockSize/len(lineAt(1))))...)
	if s.Unreadable != 1 || len(s.UnreadableLines) != 1 {
		t.Errorf("%d bad lines, %v shown; want 1", s.Unreadable, s.UnreadableLines)
	}
}

func TestOnlyLimitsChangeALimit(t *testing.T) {
	for _, change := range []string{"7", "true", `["10/s"]`} {
		line := `{"t_us":1,"key":"a","limit":` + change + `}` + "\n"
		_, s := replayed(t, twoASecond(t), inputsOf(lineAt(1)+line)...)
		if s.Unreadable != 1 || s.UnreadableLines[0].Reason != "limit: "+change+` is not a limit (write an object, or a text such as "100/m")` {
			t.Errorf("%s: got %+v", change, s.UnreadableLines)
		}
		lines, _ := replayed(t, Options{Rules: ruleSet(t, "rules: [{id: r, by: [limit], missing: skip, limit: 9/m}]")}, inputsOf(line)...)
		if counted := change[0] != '['; len(lines) != 1 || strings.Contains(lines[0], `"rule":"r"`) != counted {
			t.Errorf("%s is no attribute of its event: %v", change, lines)
		}
	}
}

// The name of a limit selects its state. A change of numbers without a name
// keeps the state.
func TestChangedLimitKeepsItsName(t *testing.T) {
	limit, err := stint.Spec{Name: "mine", Limit: 2, Window: time.Second}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	events := `{"t_us":1000000,"key":"a","cost":2}` + "\n" + `{"t_us":1000000,"key":"a","limit":"4/s"}`
	got, _ := replayed(t, Options{Limit: limit, By: "key"}, inputsOf(events)...)
	if !strings.Contains(got[1], `"allowed":false,"limit":4,"remaining":0`) {
		t.Errorf("the change starts afresh: %s", got[1])
	}
}

func TestAllLinesBadIsAnError(t *testing.T) {
	s, err := Run(t.Context(), twoASecond(t), inputsOf("x\ny\n")...)
	if err == nil || !strings.Contains(err.Error(), "not one line could be read") || s.Unreadable != 2 {
		t.Errorf("got %v and %d unreadable", err, s.Unreadable)
	}
	if s, err := Run(t.Context(), twoASecond(t), inputsOf("", "\n\n")...); err != nil || s.Events != 0 {
		t.Errorf("empty inputs: got %v and %+v", err, s)
	}
}

func TestGzipAndByteOrderMarks(t *testing.T) {
	pack := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = io.WriteString(w, text)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	first, second := lineAt(1)+lineAt(2), lineAt(3)
	want, _ := replayed(t, twoASecond(t), inputsOf(first+second)...)
	for name, text := range map[string]string{
		"gzip":                 pack(first + second),
		"twoPacked":            pack(first) + pack(second),
		"byteOrderMark":        "\ufeff" + first + second,
		"packedByteOrderMark":  pack("\ufeff" + first + second),
		"carriageReturns":      strings.ReplaceAll(first+second, "\n", "\r\n"),
		"withoutTheLastNewine": strings.TrimSuffix(first+second, "\n"),
	} {
		if got, _ := replayed(t, twoASecond(t), inputsOf(text)...); !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s", name, strings.Join(got, "\n"))
		}
	}
}

// Events that were read before an input failed are decided, and the other
// inputs are read to the end.
func TestBrokenInput(t *testing.T) {
	broken := errors.New("disk on fire")
	inputs := []Input{
		{Name: "broken", Reader: io.MultiReader(strings.NewReader(lineAt(1)+lineAt(2)+`{"t_us":3`), iotest.ErrReader(broken))},
		{Name: "whole", Reader: strings.NewReader(lineAt(3))},
		{Name: "cut.gz", Reader: strings.NewReader("\x1f\x8b\x08")},
	}
	s, err := Run(t.Context(), twoASecond(t), inputs...)
	if s.Events != 3 || s.Unreadable != 0 {
		t.Errorf("decided %d events with %d unreadable, want 3 and 0", s.Events, s.Unreadable)
	}
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "broken: only 2 lines could be read") || !strings.Contains(err.Error(), "cut.gz: only 0 lines could be read") {
		t.Errorf("got the error %v", err)
	}
}

func TestFullDiskEndsTheReplay(t *testing.T) {
	o := twoASecond(t)
	o.Decisions = fullDisk{}
	if _, err := Run(t.Context(), o, inputsOf(lineAt(1))...); !errors.Is(err, errFull) {
		t.Errorf("got %v, want %v", err, errFull)
	}
}

var errFull = errors.New("no space left")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestProgressAndCancel(t *testing.T) {
	text := strings.Repeat(lineAt(1), 3*progressEvery)
	var seen []Progress
	o := twoASecond(t)
	o.Progress = func(p Progress) { seen = append(seen, p) }
	if _, err := Run(t.Context(), o, inputsOf(text)...); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 3 || seen[2].Events != 3*progressEvery || seen[2].Bytes == 0 || seen[2].Bytes > int64(len(text)) {
		t.Errorf("got %+v", seen)
	}
	stopped, stop := context.WithCancel(t.Context())
	o.Progress = func(Progress) { stop() }
	if s, err := Run(stopped, o, inputsOf(text)...); !errors.Is(err, stopped.Err()) || err == nil {
		t.Errorf("got %v after %d events", err, s.Events)
	}
}

// stopping is a Store that ends the replay with its first decision.
type stopping struct {
	stint.Store
	stop func()
}

func (s stopping) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	defer s.stop()
	return s.Store.Take(ctx, c)
}

func TestCancelWhileAnInputSaysNothing(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	silent, _ := io.Pipe()
	text := strings.Repeat(lineAt(1), 2*blockSize/len(lineAt(1)))
	var decisions strings.Builder
	o := twoASecond(t)
	o.Decisions, o.Reorder = &decisions, 0
	o.Store = func(now func() time.Time) stint.Store { return stopping{memoryStore(now), stop} }
	s, err := Run(ctx, o, Input{Name: "first", Reader: io.MultiReader(strings.NewReader(text), silent)})
	if written := strings.Count(decisions.String(), "\n"); !errors.Is(err, context.Canceled) || s.Events == 0 || int64(written) != s.Events {
		t.Errorf("got %v after %d events, %d decisions", err, s.Events, strings.Count(decisions.String(), "\n"))
	}
}

func TestOptionsAreChecked(t *testing.T) {
	good := twoASecond(t)
	for name, o := range map[string]Options{
		"nothing":         {},
		"noAttribute":     {Limit: good.Limit},
		"negativeReorder": {Limit: good.Limit, By: "key", Reorder: -1},
	} {
		if _, err := Run(t.Context(), o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
