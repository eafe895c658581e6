package main

import (
	"encoding/xml"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

func TestGuideShowsWhatTheLibraryDoes(t *testing.T) {
	guide, err := os.ReadFile("../../docs/choosing-an-algorithm.md")
	if err != nil {
		t.Fatal(err)
	}
	var picture strings.Builder
	if err := draw(&picture); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(guide), picture.String()) {
		t.Errorf("the guide shows another picture than this (put it there):\n%s", &picture)
	}
}

// The numbers depend on floating-point arithmetic, in which Go fuses operations on some
// architectures.
func TestPicturesShowWhatTheLibraryDoes(t *testing.T) {
	if testing.Short() || runtime.GOARCH != "amd64" {
		t.Skip("takes seconds, and is drawn on amd64")
	}
	for name, draw := range sheets() {
		s, err := draw()
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile("../../docs/" + name)
		if err != nil || string(file) != s.svg() {
			t.Errorf("docs/%s shows something else, %v (cd bench; go run ./pictures ../docs)", name, err)
		}
		if err := xml.Unmarshal(file, new(struct{})); err != nil {
			t.Errorf("docs/%s: %v", name, err)
		}
	}
}

// The figures in the text of the guide equal those in its pictures.
func TestGuideSaysWhatThePicturesShow(t *testing.T) {
	guide := strings.Join(strings.Fields(read(t, "../../docs/resilience.md")), " ")
	incident := figures(t, "../../docs/incident.svg", `load ([0-9.]+), wave ([0-9.]+)`)        // four behavior, each in three advice
	overload := figures(t, "../../docs/overload.svg", `>([0-9]+) a second in the rush, (.*)<`) // four servers, then three clients
	const load, wave = 1, 2
	for _, want := range []string{
		incident[2][load] + " attempts a request instead of " + incident[0][load] + " to " + incident[1][load],
		"goes below one: " + incident[3][load],
		incident[8][wave] + " times the mean",
		incident[9][wave] + " times; " + incident[10][wave] + " with a budget",
		incident[11][wave] + " with a breaker",
		"The throttle gets " + overload[5][1] + " of 400",
		"it would be " + overload[4][1] + " without",
		"with K = 1.1 " + overload[6][1],
	} {
		if !strings.Contains(guide, want) {
			t.Errorf("the guide does not say %q", want)
		}
	}
}

func figures(t *testing.T, file, pattern string) [][]string {
	t.Helper()
	return regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, file), -1)
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestMostCountsAWindowWithoutItsEnd(t *testing.T) {
	acts := asked()[:each*21] // 10 s and a half
	if got, want := most(acts), each*20; got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}
