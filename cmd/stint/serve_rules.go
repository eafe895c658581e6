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

// openRules puts where the rules live into the configuration. The caller
// closes it.
func (f *serveFlags) openRules(c *server.Config, log *slog.Logger) (closeRules func(), err error) {
	closeRules = func() {}
	c.StateDir = f.stateFolder(log)
	if !strings.Contains(f.rules, "://") {
		if f.rulesPasswordFile != "" {
			return closeRules, usagef("rules-password-file: is for rules in Redis or PostgreSQL (give --rules a URL, or leave it out)")
		}
		c.Rules = f.rules
		return closeRules, nil
	}
	password, err := openSecret("rules-password-file", "password", f.rulesPasswordFile)
	if err != nil {
		return closeRules, err
	}
	if password != nil {
		password.LogTo(log)
		c.Secrets = append(c.Secrets, password.Files)
	}
	switch scheme := strings.ToLower(schemeOf(f.rules)); {
	case strings.HasPrefix(scheme, "redis"):
		return f.openRedisRules(c, password, log)
	case scheme == "postgres://" || scheme == "postgresql://":
		return f.openPostgresRules(c, password, log)
	default:
		return closeRules, usagef("rules: %s is not a source of rules (give a file, a folder, redis://, redis-cluster://, redis-sentinel://, one of these with rediss, or postgres://)", schemeOf(f.rules))
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
	loginBy(&options, password)
	options.Prefix, options.Logger = f.keyPrefix, log
	source, err := redisrules.New(options)
	if err != nil {
		return nil, usagef("%w", err)
	}
	c.RuleSource = source
	return source.Close, nil
}

func (f *serveFlags) openPostgresRules(c *server.Config, password *secret.Text, log *slog.Logger) (func(), error) {
	source, err := pgrules.New(pgrules.Options{URL: f.rules, Password: password, Prefix: f.keyPrefix, Logger: log})
	if err != nil {
		return nil, usagef("%w", err)
	}
	c.RuleSource = source
	return source.Close, nil
}

// stateFolder is the folder that outlives the process, or "" where there is
// none to write to: that costs what it is for, and keeps nothing from serving.
func (f *serveFlags) stateFolder(log *slog.Logger) string {
	dir := f.stateDir
	switch {
	case dir == off || f.rules == "":
		return ""
	case dir == "":
		dir = defaultStateDir(os.Getenv, os.UserHomeDir)
	}
	err := writable(dir)
	if err == nil {
		return dir
	}
	level := slog.LevelInfo
	if f.stateDir != "" {
		level = slog.LevelWarn
	}
	log.Log(context.Background(), level, "nothing outlives this process: the history of rule files is kept in memory, and no copy of rules that are elsewhere (give --state-dir a folder to write to)", "error", err)
	return ""
}

// defaultStateDir is where a system keeps the state of a service, or of what a
// user runs.
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

// writable tries a folder.
func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil { // "" is none
		return err
	}
	probe, err := os.CreateTemp(dir, ".stint-*")
	if err != nil {
		return fmt.Errorf("%s cannot be written to: %w", dir, err)
	}
	_ = probe.Close()
	return os.Remove(probe.Name())
}
