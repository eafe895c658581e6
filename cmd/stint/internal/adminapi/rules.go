package adminapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path/filepath"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/impact"
	"github.com/stintdev/stint/cmd/stint/internal/ruleedit"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// setBody is a whole set as it is read, and as it may be written.
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
}

func versionOf(v ruleset.Version) versionBody {
	b := versionBody{Version: v.Number, Hash: v.Hash, Author: v.Author, Comment: v.Comment}
	if !v.Time.IsZero() {
		b.Time = &v.Time
	}
	return b
}

// readSet answers GET /rules: the set that this node runs.
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

// oneText is a set as one text of several documents.
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

// filesOf reads a whole set: {"files":[{"name":…,"text":…}]}, or the text of
// one file, which takes the name of the only one there was.
func filesOf(data []byte, base []rule.File) []rule.File {
	var several struct {
		Files []fileBody `json:"files"`
	}
	if json.Unmarshal(data, &several) != nil || several.Files == nil {
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

// rules is a body that says something.
func (r *request) rules() ([]byte, error) {
	data, err := r.body()
	if err == nil && len(bytes.TrimSpace(data)) == 0 {
		err = badRequest("body: is empty (to have no rules, send rules: [])")
	}
	return data, err
}

// putSet answers PUT /rules: another set as a whole.
func (a *API) putSet(r *request) (any, error) {
	data, err := r.rules()
	if err != nil {
		return nil, err
	}
	return a.change(r, edit{what: "put set", whole: true, tag: setTag, make: func(base []rule.File) ([]rule.File, *rule.Set, error) {
		files := filesOf(data, base)
		set, err := rule.Parse(files...)
		return files, set, err
	}})
}

// validate answers POST /rules/validate: what is wrong with a set, and what
// it would change.
func (a *API) validate(r *request) (any, error) {
	data, err := r.rules()
	if err != nil {
		return nil, err
	}
	if err := a.reading.take(r.Context()); err != nil {
		return nil, err
	}
	defer a.reading.end()
	_, now := a.Rules.Current()
	files := filesOf(data, now.Files)
	set, err := rule.Parse(files...)
	if err != nil {
		return nil, err
	}
	d := a.compareRead(now, ruleset.Version{Number: now.Number, Files: files}, contentsOf(now.Files), contentsOf(files), set)
	result, err := a.Sample.Replay(r.Context(), set)
	return validBody{Valid: true, Rules: len(set.Rules()), Warnings: problemsOf(set.Warnings()), Diff: d, Impact: result}, err
}

type validBody struct {
	Valid    bool      `json:"valid"`
	Rules    int       `json:"rules"`
	Warnings []problem `json:"warnings"`
	Diff     *diff     `json:"diff"`

	Impact *impact.Result `json:"impact,omitempty"`
}

// readRule answers GET /rules/{id}.
func (a *API) readRule(r *request) (any, error) {
	return a.showText(r, func(files []rule.File) (ruleedit.Text, error) { return ruleedit.TextOfRule(files, r.PathValue("id")) })
}

// readTier answers GET /rules/tier/{tier}.
func (a *API) readTier(r *request) (any, error) {
	return a.showText(r, func(files []rule.File) (ruleedit.Text, error) { return ruleedit.TextOfTier(files, r.PathValue("tier")) })
}

// showText answers with a part of the rules in force.
func (a *API) showText(r *request, find func([]rule.File) (ruleedit.Text, error)) (any, error) {
	if err := a.reading.take(r.Context()); err != nil {
		return nil, err
	}
	defer a.reading.end()
	_, now := a.Rules.Current()
	text, err := find(now.Files)
	if err != nil {
		return nil, err
	}
	r.w.Header().Set("ETag", tagOf(text.JSON()))
	if r.wantsYAML() {
		return plainText{"application/yaml", text.YAML()}, nil
	}
	return json.RawMessage(text.JSON()), nil
}

// putRule answers PUT /rules/{id}.
func (a *API) putRule(r *request) (any, error) {
	id := r.PathValue("id")
	return a.editBy(r, "put rule "+id, ruleTag(id), func(body []byte) ruleedit.Edit { return ruleedit.PutRule(id, body) })
}

// deleteRule answers DELETE /rules/{id}.
func (a *API) deleteRule(r *request) (any, error) {
	id := r.PathValue("id")
	return a.editBy(r, "delete rule "+id, ruleTag(id), func([]byte) ruleedit.Edit { return ruleedit.DeleteRule(id) })
}

// putTier answers PUT /rules/tier/{tier}.
func (a *API) putTier(r *request) (any, error) {
	tier := r.PathValue("tier")
	return a.editBy(r, "put tier "+tier, tierTag(tier), func(body []byte) ruleedit.Edit { return ruleedit.PutTier(tier, body) })
}

// deleteTier answers DELETE /rules/tier/{tier}.
func (a *API) deleteTier(r *request) (any, error) {
	tier := r.PathValue("tier")
	return a.editBy(r, "delete tier "+tier, tierTag(tier), func([]byte) ruleedit.Edit { return ruleedit.DeleteTier(tier) })
}

// editBy makes an edit of the text of the set, with the body of the request.
func (a *API) editBy(r *request, what string, tag tagger, of func(body []byte) ruleedit.Edit) (any, error) {
	var body []byte
	if r.Method != http.MethodDelete {
		var err error
		if body, err = r.body(); err != nil {
			return nil, err
		}
	}
	return a.change(r, edit{what: what, tag: tag, make: func(files []rule.File) ([]rule.File, *rule.Set, error) { return ruleedit.Apply(files, of(body)) }})
}
