package main

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/stintdev/stint/rule"
)

// checkedJSON is what is found in one rule file or folder.
type checkedJSON struct {
	Path     string          `json:"path"`
	Valid    bool            `json:"valid"`
	Rules    int             `json:"rules"`
	Problems []problemJSON   `json:"problems"`
	Warnings []problemJSON   `json:"warnings"`
	Limits   []effectiveJSON `json:"limits"` // what is in force
}

// problemJSON is as the admin API writes problems.
type problemJSON struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	What   string `json:"what"`
	Mend   string `json:"mend,omitempty"`
}

type effectiveJSON struct {
	Rule     string   `json:"rule"`
	Mode     string   `json:"mode"`
	Tier     string   `json:"tier,omitempty"`
	Override string   `json:"override,omitempty"` // keys shortened
	DenyAll  bool     `json:"deny_all,omitempty"`
	Limits   []string `json:"limits"` // none: not counted
	Rates    []string `json:"rates_per_second"`
}

func validateJSON(paths []string, in io.Reader, out io.Writer) error {
	list, wrong := make([]checkedJSON, 0, len(paths)), 0
	for _, path := range paths {
		one := checked(path, in)
		wrong += len(one.Problems)
		list = append(list, one)
	}
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	if err := e.Encode(list); err != nil {
		return err
	}
	if wrong > 0 {
		return usagef("%s", counted(wrong, "mistake"))
	}
	return nil
}

func checked(path string, in io.Reader) checkedJSON {
	c := checkedJSON{Path: path, Problems: []problemJSON{}, Warnings: []problemJSON{}, Limits: []effectiveJSON{}}
	set, err := loadRules(path, in)
	if err != nil {
		list, ok := errors.AsType[rule.Problems](err)
		if !ok {
			list = rule.Problems{{File: path, What: err.Error()}}
		}
		c.Problems = problemsJSON(list)
		return c
	}
	c.Valid, c.Rules, c.Warnings = true, len(set.Rules()), problemsJSON(set.Warnings())
	for _, r := range set.Rules() {
		for _, e := range r.Effective(set) {
			c.Limits = append(c.Limits, effectiveOf(r, e))
		}
	}
	return c
}

func problemsJSON(list rule.Problems) []problemJSON {
	out := make([]problemJSON, len(list))
	for i, p := range list {
		out[i] = problemJSON(p)
	}
	return out
}

func effectiveOf(r *rule.Rule, e rule.Effective) effectiveJSON {
	out := effectiveJSON{Rule: r.ID, Mode: modeText(r), Tier: e.Tier, Override: masked(e.Override), DenyAll: r.DenyAll(), Limits: []string{}, Rates: []string{}}
	for _, l := range e.Limits {
		if r.DenyAll() {
			continue
		}
		out.Limits, out.Rates = append(out.Limits, l.String()), append(out.Rates, rateText(l))
	}
	return out
}
