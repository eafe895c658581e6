package rulecase

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Suite is a file with the results of its cases.
type Suite struct {
	Path    string
	Results []*Result
}

// The elements of a JUnit report as build servers read it. There is no schema of its
// authors; names follow the reports of Apache Ant's task junitreport.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		File    string        `xml:"file,attr"`
		Line    int           `xml:"line,attr"`
		Failure *junitFailure `xml:"failure"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes the results as a JUnit report.
func WriteJUnit(w io.Writer, suites []Suite) error {
	var report junitSuites
	for _, s := range suites {
		out := junitSuite{Name: printable(s.Path), Tests: len(s.Results)}
		for _, r := range s.Results {
			c := junitCase{Name: printable(r.Name), Class: out.Name, File: out.Name, Line: r.Line}
			if len(r.Failures) > 0 {
				out.Failures++
				lines := Lines(s.Path, r)
				c.Failure = &junitFailure{Message: printable(r.Failures[0].What), Text: printable(strings.Join(lines, "\n"))}
			}
			out.Cases = append(out.Cases, c)
		}
		report.Tests, report.Failures = report.Tests+out.Tests, report.Failures+out.Failures
		report.Suites = append(report.Suites, out)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(report); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// printable replaces the control characters that XML cannot hold.
func printable(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) && c != '\n' && c != '\t' {
			return unicode.ReplacementChar
		}
		return c
	}, text)
}

// Lines returns a line for each failure of a result: file:line:column, the time of the
// request and what differs.
func Lines(path string, r *Result) []string {
	lines := make([]string, len(r.Failures))
	for i, f := range r.Failures {
		lines[i] = fmt.Sprintf("%s:%d:%d: at %v: %s", path, f.Line, f.Column, f.After, f.What)
	}
	return lines
}
