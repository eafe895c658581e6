package adminclient

import (
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/denials"
	"github.com/stintdev/stint/cmd/stint/internal/impact"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/cmd/stint/internal/topkeys"
	"github.com/stintdev/stint/rule"
)

// Version is a version of the rules without its files.
type Version struct {
	Version uint64    `json:"version"`
	Hash    string    `json:"hash"`
	Time    time.Time `json:"time"` // zero for the built-in rules
	Author  string    `json:"author"`
	Comment string    `json:"comment"`
	// Canary says how the version tries its rules; nil: it has them for all callers.
	Canary *CanaryOptions `json:"canary"`
}

// CanaryOptions say how a canary tries its rules.
type CanaryOptions struct {
	Control    uint64  `json:"control"` // the version whose rules the other callers have
	Share      float64 `json:"share"`
	By         string  `json:"by"`
	Soak       string  `json:"soak"` // empty: it is promoted by hand
	AbortAbove float64 `json:"abort_above"`
}

// CanaryPlan says what a canary does not try.
type CanaryPlan struct {
	CanaryOptions

	RulesKept  []string      `json:"rules_kept"` // that keep their limits until the promotion
	KeptLimits []LimitChange `json:"kept_limits"`
}

// Canary is the canary that is on.
type Canary struct {
	On      bool   `json:"on"`
	Version uint64 `json:"version"`
	CanaryOptions

	Since     time.Time `json:"since"`
	Author    string    `json:"author"`
	Comment   string    `json:"comment"`
	RulesKept []string  `json:"rules_kept"`
	Requests  struct {
		Control ruleset.Counts `json:"control"`
		Canary  ruleset.Counts `json:"canary"`
	} `json:"requests"`
	Nodes int `json:"nodes"`
	Least int `json:"least_requests"` // that each side must have had before nodes end the canary
}

func (*Canary) member() string { return "on" }

// Set is a complete version.
type Set struct {
	Version

	Files []File `json:"files"`
}

// File is a rule file.
type File struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// History is a list of versions, newest first.
type History struct {
	Current  uint64    `json:"current"` // that the node runs
	Versions []Version `json:"versions"`
}

// Diff is the difference between two versions.
type Diff struct {
	From     uint64  `json:"from"`
	To       uint64  `json:"to"`
	Changed  bool    `json:"changed"`
	Rules    Names   `json:"rules"`
	Tiers    Names   `json:"tiers"`
	Moved    bool    `json:"rules_moved"`
	Lists    bool    `json:"lists"`
	Defaults bool    `json:"defaults"`
	Fresh    []Fresh `json:"starts_fresh"`
	// Limits are the limits in force that differ; LimitsMore is the number of those left out.
	Limits     []LimitChange `json:"limits"`
	LimitsMore int           `json:"limits_more"`
	Text       string        `json:"text"` // as diff -u writes it
}

// Names lists the added, removed and changed names.
type Names struct {
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	Changed []string `json:"changed"`
}

// Fresh is a limit whose counts restart.
type Fresh struct {
	Rule  string `json:"rule"`
	Limit string `json:"limit"`
}

// LimitChange says in words how a limit in force differs. Was is empty for a new rule, Is for
// a removed one.
type LimitChange struct {
	Rule     string `json:"rule"`
	Tier     string `json:"tier"`
	Override string `json:"override"`
	Was      string `json:"was"`
	Is       string `json:"is"`
}

// Outcome is the result of a change.
type Outcome struct {
	Version  uint64         `json:"version"` // the newest version after the change
	Hash     string         `json:"hash"`
	Changed  bool           `json:"changed"`
	DryRun   bool           `json:"dry_run"`
	Warnings rule.Problems  `json:"warnings"`
	Diff     *Diff          `json:"diff"`
	Impact   *impact.Result `json:"impact"` // nil if unknown
	// Penalties is the number of penalties that were ended.
	Penalties int         `json:"penalties"`
	Canary    *CanaryPlan `json:"canary"` // nil: the change is for all callers
}

// Valid describes what a valid rule set would change.
type Valid struct {
	Rules    int            `json:"rules"`
	Warnings rule.Problems  `json:"warnings"`
	Diff     Diff           `json:"diff"`
	Impact   *impact.Result `json:"impact"`
}

// States is the state of a key.
type States struct {
	Key    string     `json:"key"` // shortened
	Limits []State    `json:"limits"`
	Lists  []Entry    `json:"lists,omitempty"`  // that match the key
	Canary *KeyCanary `json:"canary,omitempty"` // nil: there is no canary
}

// KeyCanary is the state of a key under the rules of a canary.
type KeyCanary struct {
	Version uint64  `json:"version"`
	By      string  `json:"by"`                // the attribute whose values the canary splits
	Decides *bool   `json:"decides,omitempty"` // the canary has the caller; nil: unknown
	Keyless bool    `json:"keyless,omitempty"` // Decides is about requests without an API key
	Limits  []State `json:"limits"`
}

// Entry is an entry of an allow or deny list.
type Entry struct {
	Rule   string    `json:"rule"` // that has the list; empty: the whole set
	Deny   bool      `json:"deny"`
	Match  string    `json:"match"`
	Until  time.Time `json:"until"` // zero: permanent
	Reason string    `json:"reason"`
}

// State is the state of one limit of a key.
type State struct {
	Rule      string `json:"rule"`
	Name      string `json:"name"`
	Limit     int64  `json:"limit"`
	Remaining int64  `json:"remaining"`
	Before    *int64 `json:"remaining_before,omitempty"` // of a grant
	ResetMS   int64  `json:"reset_after_ms"`
	Degraded  bool   `json:"degraded,omitempty"`
	Listed    string `json:"listed,omitempty"` // deny, allow, or empty
	Shadow    bool   `json:"shadow,omitempty"` // the rule is in shadow mode: it denies nothing
	Any       bool   `json:"any,omitempty"`    // the rule denies only if none of its limits admits
	Words     string `json:"words,omitempty"`  // the limit in words; empty: from an older server
}

// Top is the keys with the highest counts.
type Top struct {
	topkeys.Top

	// Unanswered are the servers whose counts are missing from a merged answer.
	Unanswered []string `json:"unanswered,omitempty"`
}

// Denied is a list of denied requests, the newest first.
type Denied struct {
	denials.Page

	// Unanswered are the servers whose denials are missing from a merged answer.
	Unanswered []string `json:"unanswered,omitempty"`
}

// Why is why a key was denied, and its state.
type Why struct {
	States

	Denials    []denials.Denial `json:"denials"`
	LeftOut    int              `json:"left_out,omitempty"`
	Hint       string           `json:"hint,omitempty"`       // why there are no limits
	Unanswered []string         `json:"unanswered,omitempty"` // as in Denied
}

// Sample is the sample of a node's recent requests, which only other nodes can open.
type Sample struct {
	Sample []byte `json:"sample"`
}

// Nodes are the nodes that share their rules.
type Nodes struct {
	Nodes []ruleset.Node `json:"nodes"`
}

// Emergency is the state of the emergency.
type Emergency struct {
	On bool `json:"on"`
	EmergencyState

	Shared      bool            `json:"shared"`    // every node of the rules' source has the state
	Shareable   bool            `json:"shareable"` // the rules' source carries a switching to every node
	SourceError string          `json:"source_error"`
	Replaced    *EmergencyState `json:"replaced"` // what was in force before a change
	Nodes       []EmergencyNode `json:"nodes"`
}

// EmergencyState is an emergency that is on.
type EmergencyState struct {
	Limit  string    `json:"limit"`
	By     string    `json:"by"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
	Author string    `json:"author"`
	Reason string    `json:"reason"`
}

// EmergencyNode is a node, and whether it obeys the state.
type EmergencyNode struct {
	ID      string `json:"id"`
	Address string `json:"address"`
	Obeys   bool   `json:"obeys"`
}

func (*Emergency) member() string { return "on" }

func (*Set) member() string     { return "files" }
func (*History) member() string { return "versions" }
func (*Diff) member() string    { return "changed" }
func (*Outcome) member() string { return "changed" }
func (*Valid) member() string   { return "diff" }
func (*States) member() string  { return "limits" }
func (*Nodes) member() string   { return "nodes" }
func (*Denied) member() string  { return "items" }
func (*Why) member() string     { return "denials" }
func (*Top) member() string     { return "items" }
func (*Sample) member() string  { return "sample" }
