package main

import (
	"log/slog"
	"runtime/debug"

	"github.com/stintdev/stint/cmd/stint/internal/otlpexport"
	"github.com/stintdev/stint/cmd/stint/internal/server"
	"github.com/stintdev/stint/cmd/stint/internal/statsd"
)

// openExporters sets where metrics and traces are sent. It returns the export over OTLP, or nil
// without one.
func (f *serveFlags) openExporters(c *server.Config, log *slog.Logger) (*otlpexport.Export, error) {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	export, err := otlpexport.Open(otlpexport.Options{URL: f.otlp, Version: version, DecisionLog: f.decisionLog.path.text == toOTLP, Logger: log})
	if err != nil {
		return nil, usagef("%w", err)
	}
	if export != nil {
		c.Exporters = append(c.Exporters, export)
		c.Tracer, c.DroppedSpans = export.Tracer(), export.DroppedSpans
	}
	if f.statsd == "" {
		return export, nil
	}
	client, err := statsd.Open(statsd.Options{Address: f.statsd, Envoy: f.envoyCompat, Logger: log})
	if err != nil {
		return nil, usagef("%w", err)
	}
	c.Exporters = append(c.Exporters, client)
	return export, nil
}
