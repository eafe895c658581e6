package main

import (
	"encoding/xml"
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestGuideShowsWhatTheLibraryDoes(t *testing.T) {
	guide, err := os.ReadFile("../choosing-an-algorithm.md")
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

// The numbers are those of floating-point arithmetic, which Go fuses on other
// machines.
func TestPicturesShowWhatTheLibraryDoes(t *testing.T) {
	if testing.Short() || runtime.GOARCH != "amd64" {
		t.Skip("takes seconds, and is drawn on amd64")
	}
	for name, draw := range sheets() {
		s, err := draw()
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile("../" + name)
		if err != nil || string(file) != s.svg() {
			t.Errorf("docs/%s shows something else, %v (go run ./docs/pictures docs)", name, err)
		}
		if err := xml.Unmarshal(file, new(struct{})); err != nil {
			t.Errorf("docs/%s: %v", name, err)
		}
	}
}

func TestMostCountsAWindowWithoutItsEnd(t *testing.T) {
	acts := asked()[:each*21] // 10 s and a half
	if got, want := most(acts), each*20; got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}
