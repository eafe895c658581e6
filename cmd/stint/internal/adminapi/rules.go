package adminapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"path/filepath"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/impact"
	"github.com/stintdev/stint/cmd/stint/internal/ruleedit"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// setBody is a whole set, as GET returns it and PUT accepts it.
type setBody struct {
	versionBody

	Files []fileBody `json:"files"`
}

type fileBody struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// versionBody is a version without its files.
type versionBody struct {
	Version uint64     `json:"version"`
	Hash    string     `json:"hash"`
	Time    *time.Time `json:"time,omitempty"` // absent for the built-in rules
	Author  string     `json:"author,omitempty"`
	Comment string     `json:"comment,omitempty"`
	// Canary is the trial of other rules that the version is for.
	Canary *canaryOptions `json:"canary,omitempty"`
}

func versionOf(v ruleset.Version) versionBody {
	b := versionBody{Version: v.Number, Hash: v.Hash, Author: v.Author, Comment: v.Comment}
	if !v.Time.IsZero() {
		b.Time = &v.Time
	}
	if v.Canary != nil {
		b.Canary = optionsOf(v.Canary)
	}
	return b
}

// readSet answers GET /rules with the set that this node runs.
func (a *API) readSet(r *request) (any, error) {
	_, v := a.Rules.Current()
	return showVersion(r, v)
}

func showVersion(r *request, v ruleset.Version) (any, error) {
	r.w.Header().Set("ETag", hashTag(v.Files))
	if r.wantsYAML() {
		return plainText{"application/yaml", oneText(v.Files)}, nil
	}
	body := setBody{versionBody: versionOf(v), Files: []fileBody{}}
	for _, f := range v.Files {
		body.Files = append(body.Files, fileBody{f.Name, string(f.Data)})
	}
	return body, nil
}

// oneText returns a set as one text with a document for each file.
func oneText(files []rule.File) []byte {
	if len(files) == 1 {
		return files[0].Data
	}
	var b bytes.Buffer
	for _, f := range files {
		b.WriteString("---\n# " + f.Name + "\n")
		b.Write(f.Data)
		if !bytes.HasSuffix(f.Data, []byte("\n")) {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

// sameText reports whether two texts have the same lines. One may lack the last line break.
func sameText(a, b []byte) bool {
	return bytes.Equal(bytes.TrimSuffix(a, []byte("\n")), bytes.TrimSuffix(b, []byte("\n")))
}

// filesOf parses a whole set: {"files":[{"name":…,"text":…}]}, or the text of
// one file. The latter gets the name of the base's file if that has only one. A text that
// says the same as all files of the base, as stint rules show prints them, is the base.
func filesOf(data []byte, base []rule.File) []rule.File {
	var several struct {
		Files []fileBody `json:"files"`
	}
	if json.Unmarshal(data, &several) != nil || several.Files == nil {
		if len(base) > 0 && sameText(data, oneText(base)) {
			return base
		}
		name := "rules.yaml"
		if len(base) == 1 && base[0].Name != rule.BuiltinFile().Name && (filepath.Ext(base[0].Name) != ".json" || json.Valid(data)) {
			name = base[0].Name
		}
		return []rule.File{{Name: name, Data: data}}
	}
	files := make([]rule.File, len(several.Files))
	for i, f := range several.Files {
		files[i] = rule.File{Name: f.Name, Data: []byte(f.Text)}
	}
	return files
}

// rules returns the body, and refuses an empty one.
func (r *request) rules() ([]byte, error) {
	data, err := r.body()
	if err == nil && len(bytes.TrimSpace(data)) == 0 {
		err = badRequest("body: is empty (to have no rules, send rules: [])")
	}
	return data, err
}

// putSet answers PUT /rules: it replaces the whole set.
func (a *API) putSet(r *request) (any, error) {
	data, err := r.rules()
	if err != nil {
		return nil, err
	}
	data, others, err := a.withSamples(data)
	if err != nil {
		return nil, err
	}
	return a.change(r, edit{what: "put set", whole: true, others: others, tag: setTag, make: func(base []rule.File) ([]rule.File, *rule.Set, error) {
		files := filesOf(data, base)
		set, err := rule.Parse(files...)
		return files, set, err
	}})
}

// validate answers POST /rules/validate with the mistakes of a set or with its
// effects. With ?rule=orders the body is that rule in place of the one in force, and with
// ?tier=free that tier.
func (a *API) validate(r *request) (any, error) {
	data, err := r.rules()
	if err != nil {
		return nil, err
	}
	if err := a.reading.take(r.Context()); err != nil {
		return nil, err
	}
	defer a.reading.end()
	data, others, err := a.withSamples(data)
	if err != nil {
		return nil, err
	}
	_, now := a.Rules.Current()
	files, set, err := proposed(r, data, now.Files)
	if err != nil {
		return nil, err
	}
	warnings, err := a.warnings(set)
	if err != nil {
		return nil, err
	}
	d := a.compareRead(now, ruleset.Version{Number: now.Number, Files: files}, contentsOf(now.Files), contentsOf(files), set)
	result, err := a.replay(r, set, others)
	return validBody{Valid: true, Rules: len(set.Rules()), Warnings: warnings, Diff: d, Impact: result}, err
}

// proposed returns the set that a request would validate.
func proposed(r *request, data []byte, base []rule.File) ([]rule.File, *rule.Set, error) {
	if id := r.URL.Query().Get("rule"); id != "" {
		return ruleedit.Apply(base, ruleedit.PutRule(id, data))
	}
	if name := r.URL.Query().Get("tier"); name != "" {
		return ruleedit.Apply(base, ruleedit.ReplaceTier(name, data))
	}
	files := filesOf(data, base)
	set, err := rule.Parse(files...)
	return files, set, err
}

type validBody struct {
	Valid    bool      `json:"valid"`
	Rules    int       `json:"rules"`
	Warnings []problem `json:"warnings"`
	Diff     *diff     `json:"diff"`

	Impact *impact.Result `json:"impact,omitempty"`
}

// read answers GET of a rule or a tier of the rules in force.
func (a *API) read(find func(files []rule.File, name string) (ruleedit.Text, error)) func(*request) (any, error) {
	return func(r *request) (any, error) {
		if err := a.reading.take(r.Context()); err != nil {
			return nil, err
		}
		defer a.reading.end()
		_, now := a.Rules.Current()
		text, err := find(now.Files, r.part())
		if err != nil {
			return nil, err
		}
		r.w.Header().Set("ETag", tagOf(text.JSON()))
		if r.wantsYAML() {
			return plainText{"application/yaml", text.YAML()}, nil
		}
		return json.RawMessage(text.JSON()), nil
	}
}

// part returns the id of the rule or the name of the tier in the path.
func (r *request) part() string { return cmp.Or(r.PathValue("id"), r.PathValue("tier")) }

// put answers PUT of a rule or a tier.
func (a *API) put(kind string, tag func(id string) tagger, edit func(id string, body []byte) ruleedit.Edit) func(*request) (any, error) {
	return func(r *request) (any, error) {
		body, err := r.body()
		if err != nil {
			return nil, err
		}
		id := r.part()
		return a.applyPart(r, "put "+kind+" "+id, tag(id), edit(id, body))
	}
}

// putTier answers PUT /rules/tier/{tier}. With ?replace=true the body is the whole tier.
func (a *API) putTier(r *request) (any, error) {
	replace, err := r.flag("replace")
	if err != nil {
		return nil, err
	}
	if replace {
		return a.put("tier", tierTag, ruleedit.ReplaceTier)(r)
	}
	return a.put("tier", tierTag, ruleedit.PutTier)(r)
}

// remove answers DELETE of a rule or a tier.
func (a *API) remove(kind string, tag func(id string) tagger, edit func(id string) ruleedit.Edit) func(*request) (any, error) {
	return func(r *request) (any, error) {
		id := r.part()
		return a.applyPart(r, "delete "+kind+" "+id, tag(id), edit(id))
	}
}

// applyPart makes one edit of the text of a rule or a tier.
func (a *API) applyPart(r *request, what string, tag tagger, e ruleedit.Edit) (any, error) {
	return a.change(r, edit{what: what, part: true, tag: tag, make: making(e)})
}

// apply makes one edit of the text of the rules.
func (a *API) apply(r *request, what, why string, tag tagger, e ruleedit.Edit) (any, error) {
	return a.change(r, edit{what: what, why: why, tag: tag, make: making(e)})
}

func making(e ruleedit.Edit) func([]rule.File) ([]rule.File, *rule.Set, error) {
	return func(files []rule.File) ([]rule.File, *rule.Set, error) { return ruleedit.Apply(files, e) }
}
