package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var groupTitle = regexp.MustCompile(`(?m)^([A-Z][a-z ]+):$`)

func TestHelpGroupsFlags(t *testing.T) {
	for words, want := range map[string][]string{
		"serve":       {"Usage", "Examples", "Flags", "Rules", "Store", "Listeners", "Gateway", "Envoy", "Identity", "Security", "Operation", "Decision log"},
		"rules apply": {"Usage", "Examples", "Flags", "Server", "Without a server"},
		"check":       {"Usage", "Examples", "Flags", "Server"},
		"rules":       {"Usage", "Examples", "Commands", "Flags"},
	} {
		help := command(t, nil, append(strings.Fields(words), "--help")...)
		var got []string
		for _, title := range groupTitle.FindAllStringSubmatch(help.out, -1) {
			got = append(got, title[1])
		}
		if help.status != exitDone || !slices.Equal(got, want) {
			t.Errorf("%s: status %d, %v, want %v", words, help.status, got, want)
		}
	}
}

func TestHelpListsFlagsInTheirGroup(t *testing.T) {
	help := command(t, nil, "serve", "--help").out
	_, rest, _ := strings.Cut(help, "\nGateway:\n")
	gateway, _, _ := strings.Cut(rest, "\n\n")
	if !strings.Contains(gateway, "--upstream URL,...") || strings.Contains(gateway, "--store") {
		t.Errorf("%s", gateway)
	}
	if flags := strings.Count(help, "\n      --rules "); flags != 1 {
		t.Errorf("--rules is listed %d times", flags)
	}
}
