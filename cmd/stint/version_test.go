package main

import (
	"runtime/debug"
	"testing"
)

func TestVersionSaysWhatWasBuilt(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123abc"}, {Key: "vcs.modified", Value: "true"},
	}}
	for _, c := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{info, "stint v1.2.3, commit 0123abc (modified), go1.26.0"},
		{&debug.BuildInfo{GoVersion: "go1.26.0"}, "stint (devel), commit unknown, go1.26.0"},
		{nil, "stint (unknown version)"},
	} {
		if got := versionText(c.info, c.info != nil); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestVersionIsAFlagToo(t *testing.T) {
	want := command(t, nil, "version")
	for _, flag := range []string{"--version", "-v"} {
		if got := command(t, nil, flag); got.status != exitDone || got.out != want.out || got.out == "" {
			t.Errorf("%s: status %d, %q, want %q", flag, got.status, got.out, want.out)
		}
	}
}
