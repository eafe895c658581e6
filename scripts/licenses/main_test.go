package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	mit     = "MIT License\n\nPermission is hereby granted, free of charge, to any person\n obtaining a copy of this software"
	copying = "GNU Lesser General Public License\nVersion 3, 29 June 2007"
	mozilla = "Mozilla Public License Version 2.0\nThis Source Code Form is subject to the Apache License, Version 2.0"
)

func folder(t *testing.T, files map[string]string) module {
	t.Helper()
	m := module{Path: "example.com/m", Dir: t.TempDir()}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(m.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func TestLicensesThatDemandMoreThanANoticeAreRefused(t *testing.T) {
	for _, c := range []struct {
		when  string
		files map[string]string
		want  string // the error; empty: none
	}{
		{"mit", map[string]string{"LICENSE.txt": mit}, ""},
		{"mitWithNotice", map[string]string{"LICENSE": mit, "NOTICE": "made by someone"}, ""},
		{"copyleft", map[string]string{"COPYING": copying}, "is not known"},
		{"oneOfTwoIsCopyleft", map[string]string{"LICENSE": mit, "LICENSE.other": mozilla}, "is not known"},
		{"noLicense", map[string]string{"NOTICE": "made by someone"}, "has no license"},
		{"emptyLicense", map[string]string{"LICENSE": ""}, "is not known"},
	} {
		_, err := textsOf(folder(t, c.files))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.when, err, c.want)
		}
	}
}

func TestEachTextIsWrittenOnce(t *testing.T) {
	a, b := folder(t, map[string]string{"LICENSE": mit, "NOTICE": "made by a"}), folder(t, map[string]string{"LICENSE": mit + "\r\n"})
	b.Path = "example.com/n"
	text, err := textOf([]module{a, b})
	if err != nil || strings.Count(string(text), "hereby granted") != 1 || !strings.Contains(string(text), "example.com/m\nexample.com/n\n\nMIT") || !strings.Contains(string(text), "made by a") {
		t.Errorf("%v: %s", err, text)
	}
}
