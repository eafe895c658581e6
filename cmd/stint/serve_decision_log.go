package main

import (
	"io"
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"github.com/stintdev/stint/cmd/stint/internal/decisionlog"
	"github.com/stintdev/stint/cmd/stint/internal/server"
)

// decisionLogFlags are the flags of the decision log.
type decisionLogFlags struct {
	path, sample, keyFile string // an empty path: no log
	rate, keep            int
	maxBytes              int64
	maxAge                time.Duration
}

const (
	defaultDecisionSample = "1%"
	defaultDecisionBytes  = 100 << 20
	defaultDecisionAge    = 24 * time.Hour
	defaultDecisionKeep   = 10
)

func (f *decisionLogFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&f.path, "decision-log", "", "write a JSON line for each denied or degraded decision, and for a sample of the allowed ones, to this `FILE`; - is standard output")
	flags.StringVar(&f.sample, "decision-log-sample", defaultDecisionSample, "`SHARE` of the allowed requests in the decision log, such as 1%; or 1%:caller for all requests of this share of the callers, which a replay of other rules needs")
	flags.IntVar(&f.rate, "decision-log-rate", decisionlog.DefaultRate, "most lines a second for denied and degraded decisions; no rule gets more than its share")
	flags.Int64Var(&f.maxBytes, "decision-log-max-bytes", defaultDecisionBytes, "begin a new file of the decision log at this size; 0 sets no bound")
	flags.DurationVar(&f.maxAge, "decision-log-max-age", defaultDecisionAge, "begin a new file of the decision log after this time; 0 sets no bound")
	flags.IntVar(&f.keep, "decision-log-keep", defaultDecisionKeep, "number of old files of the decision log to keep; 0 keeps all")
	flags.StringVar(&f.keyFile, "key-hash-file", "", "`FILE` with the secret of the hashes that stand for callers in the decision log, the same on all nodes (default a random secret of this process)")
}

// open opens the decision log, if one is asked for.
func (f *decisionLogFlags) open(c *server.Config, stdout io.Writer, log *slog.Logger) error {
	sample, err := decisionlog.ParseSample(f.sample)
	if err != nil {
		return usagef("decision-log-sample: %w", err)
	}
	switch {
	case f.path == "" && f.keyFile != "":
		return usagef("key-hash-file: there is no decision log (give --decision-log FILE)")
	case f.path == "" && f.sample != defaultDecisionSample:
		return usagef("decision-log-sample: there is no decision log (give --decision-log FILE)")
	case f.path == "otlp":
		return usagef("decision-log: otlp is not supported by this version (give a file, or - for standard output; a file of this name is ./otlp)")
	case f.rate < 1:
		return usagef("decision-log-rate: %d is below 1 (use 1 or more)", f.rate)
	case f.maxBytes < 0:
		return usagef("decision-log-max-bytes: %d is below 0 (use 0 for no bound)", f.maxBytes)
	case f.maxAge < 0:
		return usagef("decision-log-max-age: %v is below 0 (use 0 for no bound)", f.maxAge)
	case f.keep < 0:
		return usagef("decision-log-keep: %d is below 0 (use 0 to keep all files)", f.keep)
	case f.path == "":
		return nil
	}
	o := decisionlog.Options{Sample: sample, Rate: f.rate, Logger: log}
	if f.keyFile == "" {
		log.Warn("decision log: hashes of callers are under a random secret, so they differ between nodes and after a restart (give --key-hash-file)")
	} else if o.Key, err = decisionlog.ReadKey(f.keyFile); err != nil {
		return usagef("key-hash-file: %w", err)
	}
	if o.Sink, err = f.sink(stdout); err != nil {
		return err
	}
	c.DecisionLog = decisionlog.New(o)
	return nil
}

func (f *decisionLogFlags) sink(stdout io.Writer) (decisionlog.Sink, error) {
	if f.path == "-" {
		return decisionlog.Stream{W: stdout}, nil
	}
	file, err := decisionlog.Open(decisionlog.FileOptions{Path: f.path, MaxSize: f.maxBytes, MaxAge: f.maxAge, Keep: f.keep})
	if err != nil {
		return nil, usagef("decision-log: %w (name a file that this user may write, and no other server)", err)
	}
	return file, nil
}
