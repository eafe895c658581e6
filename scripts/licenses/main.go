// Licenses writes the licenses and notices of all modules that the program stint links, and of
// the files of others that it embeds, which have to accompany it. It fails for a module whose license is unknown to it, or demands more
// than a notice.
//
//	go run ./scripts/licenses [-check] [FILE]
//
// With -check it compares the file, and writes nothing.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// systems are those whose builds are published. Builds for others may link further modules.
var systems = []string{"linux", "darwin", "windows"}

func main() {
	only := flag.Bool("check", false, "fail unless the file is as it would be written")
	flag.Parse()
	file := "THIRD_PARTY_LICENSES"
	if flag.NArg() > 0 {
		file = flag.Arg(0)
	}
	if err := run(file, *only); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func run(file string, only bool) error {
	modules, err := linked()
	if err != nil {
		return err
	}
	packages, err := bundled()
	if err != nil {
		return err
	}
	text, err := textOf(slices.Concat(modules, embedded, packages))
	if err != nil {
		return err
	}
	if !only {
		return os.WriteFile(file, text, 0o644) //nolint:gosec // it is for everybody
	}
	if old, err := os.ReadFile(file); err != nil || !bytes.Equal(old, text) { //nolint:gosec // the user names the file
		return fmt.Errorf("%s is not that of the modules in go.work (run: go run ./scripts/licenses)", file)
	}
	return nil
}

// module is a part of what `go list -json` prints of a package.
type module struct {
	Path string `json:"Path"`
	Dir  string `json:"Dir"`
	Main bool   `json:"Main"`
}

// embedded are the folders of this repository with files of others that the program embeds.
var embedded = []module{{Path: "uPlot", Dir: filepath.FromSlash("cmd/stint/internal/replayhtml/uplot")}}

// bundled returns the npm packages in the admin pages. `make ui` writes their licenses.
func bundled() (list []module, err error) {
	folders, err := filepath.Glob(filepath.FromSlash("cmd/stint/internal/adminui/licenses/*"))
	for _, folder := range folders {
		list = append(list, module{Path: strings.ReplaceAll(filepath.Base(folder), "+", "/"), Dir: folder})
	}
	return list, err
}

// linked returns the modules of the packages that the program is built from, on any system.
func linked() ([]module, error) {
	all := map[string]module{}
	for _, system := range systems {
		list := exec.Command("go", "list", "-deps", "-json=Module", "./cmd/stint") //nolint:noctx // it ends by itself
		list.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		list.Stderr = os.Stderr
		out, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("go list for %s: %w", system, err)
		}
		for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
			var p struct {
				Module *module `json:"Module"`
			}
			if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			if p.Module != nil && !p.Module.Main && !strings.HasPrefix(p.Module.Path, "github.com/stintdev/stint") {
				all[p.Module.Path] = *p.Module
			}
		}
	}
	return sorted(all), nil
}

func sorted(all map[string]module) (list []module) {
	for _, m := range all {
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	return list
}

// textOf returns the file: each text once, under the modules that have it.
func textOf(modules []module) ([]byte, error) {
	var order []string
	var failed error
	owners := map[string][]string{}
	for _, m := range modules {
		texts, err := textsOf(m)
		failed = errors.Join(failed, err)
		for _, text := range texts {
			if owners[text] == nil {
				order = append(order, text)
			}
			owners[text] = append(owners[text], m.Path)
		}
	}
	var b bytes.Buffer
	b.WriteString("The program stint contains the modules and files below, under these licenses. The Go runtime and\nthe standard library have the license of golang.org/x.\n")
	for _, text := range order {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(owners[text], "\n"), text)
	}
	return b.Bytes(), failed
}

// textsOf returns the texts of the licenses and notices in the top folder of a module.
func textsOf(m module) (texts []string, err error) {
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w (run: go mod download)", m.Path, err)
	}
	known := false
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		isLicense := strings.HasPrefix(name, "LICENSE") || strings.HasPrefix(name, "LICENCE") || strings.HasPrefix(name, "COPYING")
		if e.IsDir() || !isLicense && !strings.HasPrefix(name, "NOTICE") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(m.Dir, e.Name()))
		if err != nil {
			return nil, err
		}
		text := strings.TrimSpace(strings.ReplaceAll(string(data), "\r\n", "\n"))
		if isLicense {
			if kindOf(text) == "" {
				return nil, fmt.Errorf("%s: the license in %s is not known (add it to kindOf if it demands only a notice)", m.Path, filepath.Join(m.Dir, e.Name()))
			}
			known = true
		}
		texts = append(texts, text)
	}
	if !known {
		return nil, fmt.Errorf("%s: has no license in %s", m.Path, m.Dir)
	}
	return texts, nil
}

// kindOf returns the name of a license that demands only a notice, or "" for any other text.
func kindOf(text string) string {
	words := strings.Join(strings.Fields(text), " ")
	for _, demanding := range []string{"GNU GENERAL PUBLIC", "GNU LESSER GENERAL PUBLIC", "GNU AFFERO", "Mozilla Public License", "Business Source License", "Server Side Public License", "Commons Clause"} {
		if strings.Contains(strings.ToLower(words), strings.ToLower(demanding)) {
			return ""
		}
	}
	for _, l := range [][2]string{
		{"Apache License Version 2.0, January 2004", "Apache-2.0"},
		{"Apache License, Version 2.0", "Apache-2.0"},
		{"Permission is hereby granted, free of charge, to any person obtaining a copy", "MIT"},
		{"Redistribution and use in source and binary forms, with or without modification, are permitted", "BSD"},
		{"Permission to use, copy, modify, and/or distribute this software for any purpose", "ISC"},
		{"Permission to use, copy, modify, and distribute this software for any purpose", "ISC"},
		{"CC0 1.0 Universal", "CC0"},
	} {
		if strings.Contains(words, l[0]) {
			return l[1]
		}
	}
	return ""
}
