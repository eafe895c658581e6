package rule

import (
	"errors"
	"fmt"
	"testing"
)

func TestCheckAttributesNamesThePlaces(t *testing.T) {
	s := mustParse(t, `tiers:
  free: {api_key_pattern: "f_*", limit: 1/s}
  gold: {limit: 9/s}
rules:
  - id: a
    by: [user_id, ip]
    tier: gold
  - {id: b, match: {headers: {x-plan: gold}}, cost: units, limit: 5/s}
  - {id: c, by: [user_id], limit: 5/s, on_store_failure: {local: {by: [node], limit: 1/s}}}
  - {id: d, by: [of_no_use], mode: off, limit: 5/s}
  - {id: e, limit: 5/s}
`)
	for _, s := range []*Set{s, s.WithPathEncoding(PathKeep)} {
		got := s.CheckAttributes(func(name string) error {
			if name == "ip" {
				return nil
			}
			return fmt.Errorf("no %s", name)
		}).Error()
		const want = `rules.yaml:3:3: no tier
rules.yaml:6:10: no user_id
rules.yaml:8:31: no header:x-plan
rules.yaml:8:53: no units
rules.yaml:9:18: no user_id
rules.yaml:9:72: no node`
		if got != want {
			t.Errorf("got:\n%s", got)
		}
	}
}

func TestRefusedIDsAreFoundWithTheirPosition(t *testing.T) {
	set, err := Parse(
		File{Name: "a.yaml", Data: []byte("rules: [{id: a, limit: 1/s}]\n")},
		File{Name: "b.yaml", Data: []byte("rules:\n  - {id: b, limit: 1/s}\n  - limit: 1/s\n    id: mine\n")})
	if err != nil {
		t.Fatal(err)
	}
	mine := func(id string) error {
		if id == "mine" {
			return errors.New("the id is reserved")
		}
		return nil
	}
	if got := set.CheckIDs(mine).Error(); got != "b.yaml:4:9: the id is reserved" {
		t.Error(got)
	}
	if got := Builtin().CheckIDs(mine); got != nil {
		t.Error(got)
	}
	if got := (*Set)(nil).CheckIDs(mine); got != nil {
		t.Error(got)
	}
}
