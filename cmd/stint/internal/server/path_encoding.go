package server

import (
	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/urlpath"
	"github.com/stintdev/stint/rule"
)

// PathEncoding says how the servers whose requests are counted read encoded
// separators and path parameters. The zero value is PathDecode.
type PathEncoding uint8

const (
	// PathDecode matches paths decoded and without path parameters.
	PathDecode PathEncoding = iota
	// PathKeep takes encoded separators and parameters for part of a segment.
	PathKeep
	// PathReject refuses the paths that servers read differently.
	PathReject
)

// checkPath refuses, under PathReject, a request whose path servers read in different
// ways. It does so whether or not a rule reads the path, since such a path could escape
// any rule.
func (r *rules) checkPath(a rule.Attributes) error {
	if r.pathEncoding != PathReject {
		return nil
	}
	path, _ := a.Attribute("path")
	if err := urlpath.Check(path); err != nil {
		return &stint.Error{Code: stint.CodeInvalid, Problem: "path: " + err.Error(), Mend: "write the path plainly"}
	}
	return nil
}
