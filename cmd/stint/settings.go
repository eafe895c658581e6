package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// layer completes the flags that were not given from the environment, and
// those that are not there either from the file that --config names.
func layer(flags *pflag.FlagSet, environment func(string) (string, bool)) (origins, error) {
	from := origins{}
	flags.Visit(func(f *pflag.Flag) { from[f.Name] = "" })
	if err := layerEnvironment(flags, from, environment); err != nil {
		return nil, err
	}
	path := flags.Lookup("config").Value.String()
	if path == "" {
		return from, from.checkClosing(flags)
	}
	settings, err := readSettings(path, settingNames(flags))
	if err != nil {
		return nil, err
	}
	for _, s := range settings {
		if _, given := from[s.name]; given {
			continue
		}
		from[s.name] = s.position
		if err := set(flags.Lookup(s.name), s.position+": "+s.name, s.value); err != nil {
			return nil, err
		}
	}
	return from, from.checkClosing(flags)
}

// checkClosing refuses a setting that is to keep strangers out and was given
// empty, as by a script whose variable is not set: it would leave open what was
// meant to be closed.
func (o origins) checkClosing(flags *pflag.FlagSet) error {
	for _, name := range []string{"http-token-file", "admin-token-file", "admin-tokens-file", "tls-cert", "tls-key", "client-ca"} {
		if _, given := o[name]; given && flags.Lookup(name).Value.String() == "" {
			return o.place(usagef("%s: is given, and empty (name a file, or leave it out)", name))
		}
	}
	return nil
}

// layerEnvironment notes what it sets. An empty variable counts as absent,
// because many who start processes cannot leave one out.
func layerEnvironment(flags *pflag.FlagSet, from origins, environment func(string) (string, bool)) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		name := variableOf(f.Name)
		value, ok := environment(name)
		if _, given := from[f.Name]; !ok || value == "" || given || f.Name == "help" || err != nil {
			return
		}
		from[f.Name] = name
		err = set(f, name, value)
	})
	return err
}

// variableOf is the environment variable of a flag: max-keys is STINT_MAX_KEYS.
func variableOf(flag string) string {
	return "STINT_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// set sets a flag from where; the error names the place and the kind of value.
func set(f *pflag.Flag, where, value string) error {
	if err := f.Value.Set(value); err != nil {
		return usagef("%s: %q is not a valid %s", where, value, kindOf(f))
	}
	return nil
}

func kindOf(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int":
		return "whole number"
	case "bool":
		return "truth value (use true or false)"
	case "duration":
		return "duration (write it as 1s)"
	case "stringSlice":
		return "list (separate by commas)"
	}
	return f.Value.Type()
}

// settingNames are the flags that a settings file may set: all but those that
// only make sense on a command line.
func settingNames(flags *pflag.FlagSet) (names []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "config" && f.Name != "help" {
			names = append(names, f.Name)
		}
	})
	return names
}

// placed is a position in a file, as errors begin.
func placed(file string, line, column int) string { return fmt.Sprintf("%s:%d:%d", file, line, column) }
