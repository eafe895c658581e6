package main

import (
	"fmt"
	"html"
	"strconv"
	"strings"
)

// panel is one small chart: bars in the background, an area in front of them.
type panel struct {
	title, note string
	back, front []int // a value a second
	top         int   // top of the scale
	level       int   // the value of a dashed line; 0: no line
	from, to    int   // the first and last marked second
}

const (
	panelWidth, panelHeight = 220, 150
	plotWidth, plotHeight   = 204, 84
	gap                     = 12
	left                    = 44 // margin for the scale
	above                   = 58 // margin for the title
)

// sheet is a set of rows of panels with one scale for each row.
type sheet struct {
	title   string
	legend  string
	names   []string // names of the rows
	rows    [][]panel
	seconds int
}

// svg returns the drawing. Its coordinates are integers or tenths, so that every machine
// draws the same.
func (s *sheet) svg() string {
	var b strings.Builder
	columns := 0
	for _, row := range s.rows {
		columns = max(columns, len(row))
	}
	width, height := left+columns*(panelWidth+gap), above+len(s.rows)*(panelHeight+26)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="system-ui, sans-serif" font-size="11" fill="#333">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n"+`<rect width="%d" height="%d" fill="#fff"/>`+"\n", html.EscapeString(s.title), width, height)
	text(&b, 12, 20, `font-size="14" font-weight="600"`, s.title)
	text(&b, 12, 37, `fill="#777"`, s.legend)
	for i, row := range s.rows {
		y := above + i*(panelHeight+26)
		text(&b, 12, y+8, `font-weight="600"`, s.names[i])
		for j := range row {
			s.draw(&b, &row[j], left+j*(panelWidth+gap), y+18, j == 0)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (s *sheet) draw(b *strings.Builder, p *panel, x, y int, scale bool) {
	fmt.Fprintf(b, `<g transform="translate(%d %d)">`+"\n", x, y)
	text(b, 0, 12, "", p.title)
	text(b, 0, 26, `fill="#777" font-size="10"`, p.note)
	b.WriteString(`<g transform="translate(0 34)">` + "\n")
	fmt.Fprintf(b, `<rect x="%s" width="%s" height="%d" fill="#fbe9e7"/>`+"\n", tenths(s.across(p.from)), tenths(s.across(p.to)-s.across(p.from)), plotHeight)
	s.grid(b, p, scale)
	if p.back != nil {
		fmt.Fprintf(b, `<path d="%s" fill="#d7d7d7"/>`+"\n", s.area(p, p.back))
	}
	fmt.Fprintf(b, `<path d="%s" fill="#2a78b8" fill-opacity="0.85"/>`+"\n", s.area(p, p.front))
	if p.level > 0 {
		h := plotHeight*10 - p.level*plotHeight*10/p.top
		fmt.Fprintf(b, `<path d="M0 %sH%d" stroke="#222" stroke-dasharray="3 3"/>`+"\n", tenths(h), plotWidth)
	}
	b.WriteString("</g>\n</g>\n")
}

// grid draws the scale: its top, half of it, and every twenty seconds.
func (s *sheet) grid(b *strings.Builder, p *panel, scale bool) {
	for i := range 3 {
		y := i * plotHeight / 2
		fmt.Fprintf(b, `<path d="M0 %dH%d" stroke="#ddd"/>`+"\n", y, plotWidth)
		if scale {
			text(b, -5, y+4, `text-anchor="end" font-size="10" fill="#777"`, strconv.Itoa(p.top*(2-i)/2))
		}
	}
	for t := 0; t <= s.seconds; t += 20 {
		unit := ""
		if t == s.seconds-s.seconds%20 {
			unit = " s"
		}
		text(b, s.across(t)/10, plotHeight+13, `text-anchor="middle" font-size="10" fill="#777"`, strconv.Itoa(t)+unit)
	}
}

// area returns a path of steps, one for each second.
func (s *sheet) area(p *panel, values []int) string {
	var d strings.Builder
	fmt.Fprintf(&d, "M0 %d", plotHeight)
	for t, v := range values {
		y := plotHeight*10 - min(v, p.top)*plotHeight*10/p.top
		fmt.Fprintf(&d, "V%sH%s", tenths(y), tenths(s.across(t+1)))
	}
	fmt.Fprintf(&d, "V%dZ", plotHeight)
	return d.String()
}

// across returns the x coordinate of a second, in tenths.
func (s *sheet) across(second int) int { return second * plotWidth * 10 / s.seconds }

func tenths(n int) string {
	if n%10 == 0 {
		return strconv.Itoa(n / 10)
	}
	return fmt.Sprintf("%d.%d", n/10, n%10)
}

func text(b *strings.Builder, x, y int, style, s string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" %s>%s</text>`+"\n", x, y, style, html.EscapeString(s))
}
