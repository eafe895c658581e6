package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/stintdev/stint/cmd/stint/internal/pgrules"
	"github.com/stintdev/stint/cmd/stint/internal/redisrules"
	"github.com/stintdev/stint/cmd/stint/internal/server"
	"github.com/stintdev/stint/internal/secret"
	"github.com/stintdev/stint/redisstore"
)

// openRules sets the source of the rules in the configuration: a path, or a
// database. The caller closes it.
func (f *serveFlags) openRules(c *server.Config, log *slog.Logger) (closeRules func(), err error) {
	c.StateDir = f.openStateDir(log)
	if !strings.Contains(f.rules, "://") {
		if f.rulesPasswordFile != "" {
			return nil, usagef("rules-password-file: is for rules in Redis or PostgreSQL (give --rules a URL, or leave it out)")
		}
		c.Rules = f.rules
		return func() {}, nil
	}
	password, err := openSecret("rules-password-file", "password", f.rulesPasswordFile)
	if err != nil {
		return nil, err
	}
	if password != nil {
		password.LogTo(log)
		c.Secrets = append(c.Secrets, password.Files)
	}
	switch scheme := strings.ToLower(schemeOf(f.rules)); {
	case strings.HasPrefix(scheme, "redis"):
		return f.openRedisRules(c, password, log)
	case scheme == "postgres://" || scheme == "postgresql://":
		source, err := pgrules.New(pgrules.Options{URL: f.rules, Password: password, Prefix: f.keyPrefix, Logger: log})
		if err != nil {
			return nil, usagef("%w", err)
		}
		c.RuleSource = source
		return source.Close, nil
	default:
		return nil, usagef("rules: %s is not a source of rules (give a file, a folder, redis://, redis-cluster://, redis-sentinel://, one of these with rediss, redis+unix://, or postgres://)", schemeOf(f.rules))
	}
}

func (f *serveFlags) openRedisRules(c *server.Config, password *secret.Text, log *slog.Logger) (func(), error) {
	options, err := redisstore.ParseURL(f.rules)
	switch {
	case err != nil:
		return nil, usagef("rules: %w", err)
	case password != nil && options.Password != "":
		return nil, usagef("rules: the URL has a password, and so has %s (remove it from the URL)", f.rulesPasswordFile)
	}
	setPassword(&options, password)
	options.Prefix, options.Logger = f.keyPrefix, log
	source, err := redisrules.New(options)
	if err != nil {
		return nil, usagef("%w", err)
	}
	c.RuleSource = source
	return source.Close, nil
}

// openStateDir returns a writable folder for state that outlives the process, or
// "" without one. The server runs without the folder too: it then keeps the
// history of rule files in memory, and no local copy of rules in a database.
func (f *serveFlags) openStateDir(log *slog.Logger) string {
	dir := f.stateDir
	switch {
	case dir == off || f.rules == "":
		return ""
	case dir == "":
		dir = defaultStateDir(os.Getenv, os.UserHomeDir)
	}
	err := checkWritable(dir)
	if err == nil {
		return dir
	}
	level := slog.LevelInfo
	if f.stateDir != "" {
		level = slog.LevelWarn
	}
	log.Log(context.Background(), level, "no state folder: the history of rule files is kept in memory only, and no local copy of rules in a database is kept (give --state-dir a writable folder)", "error", err)
	return ""
}

// defaultStateDir returns the folder in which the system keeps the state of a service, or the
// state of the user's programs if Stint is not run as a service.
func defaultStateDir(environment func(string) string, home func() (string, error)) string {
	if dir, _, _ := strings.Cut(environment("STATE_DIRECTORY"), ":"); dir != "" { // systemd's StateDirectory=
		return dir
	}
	if dir := environment("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "stint")
	}
	dir, err := home()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, ".local", "state", "stint")
}

// checkWritable creates a folder if it is missing, and a file in it as a test.
func checkWritable(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil { // fails if dir is ""
		return err
	}
	probe, err := os.CreateTemp(dir, ".stint-*")
	if err != nil {
		return fmt.Errorf("%s cannot be written to: %w", dir, err)
	}
	_ = probe.Close()
	return os.Remove(probe.Name())
}
