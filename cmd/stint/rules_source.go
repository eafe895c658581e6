package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"

	"github.com/stintdev/stint/cmd/stint/internal/adminapi"
	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/cmd/stint/internal/server"
	"github.com/stintdev/stint/rule"
)

// openSource makes this process the server that is asked: what it publishes,
// the nodes follow, and the first of them finds there.
func (f *adminFlags) openSource(ctx context.Context) error {
	log := slog.New(slog.NewTextHandler(f.errs, &slog.HandlerOptions{Level: slog.LevelError}))
	serve := serveFlags{rules: f.source, rulesPasswordFile: f.sourcePassword, keyPrefix: f.sourcePrefix, stateDir: off}
	var config server.Config
	closeRules, err := serve.openRules(&config, log)
	if err != nil {
		return err
	}
	if config.RuleSource == nil {
		return usagef("source: a file or folder is its own source (edit it, and its servers follow)")
	}
	f.closeSource = closeRules
	keeper, err := loadSource(ctx, config.RuleSource, log)
	if err != nil {
		closeRules()
		return err
	}
	f.client.URL = &url.URL{Scheme: "http", Host: "localhost"}
	f.client.Transport = adminclient.InProcess{Handler: adminapi.New(adminapi.Config{Rules: keeper, Logger: log})}
	return nil
}

// loadSource reads the newest version. One that cannot be read is no reason to
// go on as if there were none.
func loadSource(ctx context.Context, source ruleset.Source, log *slog.Logger) (*ruleset.Manager, error) {
	var refused error
	keeper := ruleset.NewManager(ruleset.Options{
		Source: source, Logger: log,
		OnSet:   func(*rule.Set, ruleset.Version) {},
		OnError: func(err error) { refused = err },
	})
	if err := keeper.Load(ctx); err != nil {
		return nil, err
	}
	if errors.Is(refused, ruleset.ErrDamaged) {
		return nil, fmt.Errorf("source: %w (publish others by a server that runs, with --server)", refused)
	}
	if refused != nil {
		return nil, fmt.Errorf("source: %w", refused)
	}
	return keeper, nil
}
