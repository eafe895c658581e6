package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestEveryFlagOfServeIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/serve.md")
	if err != nil {
		t.Fatal(err)
	}
	set := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	new(serveFlags).define(set)
	set.VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(string(text), "`--"+f.Name) {
			t.Errorf("docs/serve.md does not mention --%s", f.Name)
		}
	})
}
