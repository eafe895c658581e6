package replay

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// An event without the attribute counts as under a rule: by its address, or
// together with the others that have none either.
func TestMissingAttributesCountAsUnderARule(t *testing.T) {
	events := `{"t_us":1,"tenant":"a","ip":"192.0.2.1"}
{"t_us":2,"ip":"192.0.2.1"}
{"t_us":3,"tenant":"192.0.2.1"}
{"t_us":4,"tenant":"","ip":"2001:db8::1"}
{"t_us":5,"tenant":null,"ip":"2001:db8::2"}
{"t_us":6}
{"t_us":7,"path":"/x"}
{"t_us":8,"tenant":"a"}
`
	limit, s := replayed(t, Options{Limit: compiled(t, "2/h"), By: "tenant"}, inputsOf(events)...)
	rules, r := replayed(t, Options{Rules: ruleSet(t, "rules: [{id: r, by: [tenant], limit: 2/h}]")}, inputsOf(events)...)
	for i := range rules {
		if want := strings.Replace(rules[i], `"rule":"r"`, `"rule":""`, 1); limit[i] != want {
			t.Errorf("got\n%s, want\n%s", limit[i], want)
		}
	}
	if s.Missing != 5 || s.Keys != r.Keys || s.Keys != 5 || s.Unreadable != 0 {
		t.Errorf("%+v", s)
	}
}

func TestUnknownAttributesAreRefused(t *testing.T) {
	alb := strings.Join(linesOf(t, "alb.log"), "\n")
	sample := strings.Join(linesOf(t, "sample_access.log"), "\n")
	var wide strings.Builder
	wide.WriteString(`{"t_us":1`)
	for i := range 24 {
		fmt.Fprintf(&wide, `,"a%02d":1`, i)
	}
	for name, c := range map[string]struct{ by, text, want string }{
		"misspelled":     {"pth", sample, `no event has the attribute "pth" (did you mean "path"?)`},
		"header":         {"header:user_agent", sample, `did you mean "header:user-agent"`},
		"noPrefix":       {"user-agent", sample, `did you mean "header:user-agent"`},
		"likeAHeader":    {"UserAgent", sample, `did you mean "header:user-agent"`},
		"notOfALog":      {"api_key", sample, "(the events have bytes, header:referer, "},
		"notOfALB":       {"sattus", alb, `did you mean "status"`},
		"notOfALine":     {"tennant", `{"t_us":1,"tenant":"a"}`, `did you mean "tenant"`},
		"nullIsNoMember": {"tier", `{"t_us":1,"tier":null,"ip":"x"}`, "(the events have ip, t_us)"},
		"manyMembers":    {"zebra", wide.String() + "}", "a18, a19 and 5 others)"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Run(t.Context(), Options{Limit: compiled(t, "2/h"), By: c.by}, inputsOf(c.text)...)
			if unknown := (*UnknownAttributeError)(nil); !errors.As(err, &unknown) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
	for name, text := range map[string]string{
		"knownOfTheFormat": `192.0.2.1` + stamp + `"GET /a HTTP/1.1" 200`,
		"later":            `{"t_us":1}` + "\n" + `{"t_us":2,"user":"x"}`,
	} {
		if _, err := Run(t.Context(), Options{Limit: compiled(t, "2/h"), By: "user"}, inputsOf(text)...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A log whose format cannot have the attribute is refused by its first lines.
func TestUnknownAttributesAreRefusedAtOnce(t *testing.T) {
	sample := strings.Join(linesOf(t, "sample_access.log"), "\n") + "\n"
	endless := io.MultiReader(strings.NewReader(strings.Repeat(sample, 100)), &newKeys{left: 1 << 40})
	_, err := Run(t.Context(), Options{Limit: compiled(t, "2/h"), By: "api_kay"}, Input{Reader: endless})
	if unknown := (*UnknownAttributeError)(nil); !errors.As(err, &unknown) {
		t.Error(err)
	}
}

func TestSinceAndUntil(t *testing.T) {
	o := twoASecond(t)
	o.Since, o.Until = time.Unix(10, 0), time.Unix(20, 0)
	lines, s := replayed(t, o, inputsOf(lineAt(9.999999)+lineAt(10)+lineAt(20)+lineAt(19.999999)+lineAt(3))...)
	if got := order(t, lines); !slices.Equal(got, []int64{2, 4}) || s.Outside != 3 || s.Events != 2 {
		t.Errorf("%v, %+v", got, s)
	}
	o.Until = o.Since
	if _, err := Run(t.Context(), o, inputsOf(lineAt(9))...); err == nil || !strings.Contains(err.Error(), "is not before until") {
		t.Error(err)
	}
}
