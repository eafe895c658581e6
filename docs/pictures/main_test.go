package main

import (
	"os"
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

func TestMostCountsAWindowWithoutItsEnd(t *testing.T) {
	acts := asked()[:each*21] // 10 s and a half
	if got, want := most(acts), each*20; got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}
