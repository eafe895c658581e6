package main

import (
	"io"
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"github.com/stintdev/stint/cmd/stint/internal/decisionlog"
	"github.com/stintdev/stint/cmd/stint/internal/otlpexport"
	"github.com/stintdev/stint/cmd/stint/internal/server"
)

// decisionLogFlags are the flags of the decision log.
type decisionLogFlags struct {
	path            onceText // empty: no log
	sample, keyFile string
	rate, keep      int
	maxBytes        int64
	maxAge          time.Duration
}

const (
	defaultDecisionSample = "1%"
	defaultDecisionBytes  = 100 << 20
	defaultDecisionAge    = 24 * time.Hour
	defaultDecisionKeep   = 10
)

func (f *decisionLogFlags) define(flags *pflag.FlagSet) {
	flags.Var(&f.path, "decision-log", "write a JSON line for each denied or degraded decision, and for a sample of the allowed ones, to this `FILE`; - is standard output, and otlp sends log records to the collector of --otlp")
	flags.StringVar(&f.sample, "decision-log-sample", defaultDecisionSample, "`SHARE` of the allowed requests in the decision log, such as 1%; or 1%:caller for all requests of this share of the callers, which a replay of other rules needs")
	flags.IntVar(&f.rate, "decision-log-rate", decisionlog.DefaultRate, "most lines a second for denied and degraded decisions; no rule gets more than its share")
	flags.Int64Var(&f.maxBytes, "decision-log-max-bytes", defaultDecisionBytes, "begin a new file of the decision log at this size; 0 sets no bound")
	flags.DurationVar(&f.maxAge, "decision-log-max-age", defaultDecisionAge, "begin a new file of the decision log after this time; 0 sets no bound")
	flags.IntVar(&f.keep, "decision-log-keep", defaultDecisionKeep, "number of old files of the decision log to keep; 0 keeps all")
	flags.StringVar(&f.keyFile, "key-hash-file", "", "`FILE` with the secret of the hashes that stand for callers in the decision log and in lists of denials, the same on all nodes (default a random secret of this process)")
}

// toOTLP is the path that stands for the collector of OpenTelemetry.
const toOTLP = "otlp"

// open opens the decision log, if one is asked for. logs sends it over OTLP; nil: it is not
// sent there.
func (f *decisionLogFlags) open(c *server.Config, stdout io.Writer, logs *otlpexport.Logs, log *slog.Logger) error {
	sample, err := decisionlog.ParseSample(f.sample)
	if err != nil {
		return usagef("decision-log-sample: %w", err)
	}
	if f.keyFile != "" {
		if c.KeyHash, err = decisionlog.ReadKey(f.keyFile); err != nil {
			return usagef("key-hash-file: %w", err)
		}
	}
	switch {
	case f.path.text == "" && f.sample != defaultDecisionSample:
		return usagef("decision-log-sample: there is no decision log (give --decision-log FILE)")
	case f.rate < 1:
		return usagef("decision-log-rate: %d is below 1 (use 1 or more)", f.rate)
	case f.maxBytes < 0:
		return usagef("decision-log-max-bytes: %d is below 0 (use 0 for no bound)", f.maxBytes)
	case f.maxAge < 0:
		return usagef("decision-log-max-age: %v is below 0 (use 0 for no bound)", f.maxAge)
	case f.keep < 0:
		return usagef("decision-log-keep: %d is below 0 (use 0 to keep all files)", f.keep)
	case f.path.text == "":
		return nil
	case f.path.text == toOTLP && logs == nil:
		log.Warn("decision log: nothing is logged, because OTEL_SDK_DISABLED is true")
		return nil
	}
	if c.KeyHash.IsZero() {
		log.Warn("decision log: hashes of callers are under a random secret, so they differ between nodes and after a restart (give --key-hash-file)")
		c.KeyHash = decisionlog.NewKey()
	}
	o := decisionlog.Options{Sample: sample, Rate: f.rate, Key: c.KeyHash, Logger: log}
	if o.Sink, err = f.sink(stdout, logs); err != nil {
		return err
	}
	c.DecisionLog = decisionlog.New(o)
	if f.path.text != "-" && f.path.text != toOTLP {
		c.DecisionLogFile = f.path.text
	}
	return nil
}

func (f *decisionLogFlags) sink(stdout io.Writer, logs *otlpexport.Logs) (decisionlog.Sink, error) {
	switch f.path.text {
	case "-":
		return decisionlog.Stream{W: stdout}, nil
	case toOTLP:
		return logs, nil
	}
	file, err := decisionlog.Open(decisionlog.FileOptions{Path: f.path.text, MaxSize: f.maxBytes, MaxAge: f.maxAge, Keep: f.keep})
	if err != nil {
		return nil, usagef("decision-log: %w (name a file that this user may write, and no other server)", err)
	}
	return file, nil
}

// onceText is a flag that is a text and may be given once. Of a text that is given twice, an
// operator would not notice that the first has no effect.
type onceText struct {
	text  string
	given bool
}

func (o *onceText) String() string { return o.text }

func (o *onceText) Set(text string) error {
	if o.given {
		return usagef("%q is the second one (give this flag once)", text)
	}
	o.text, o.given = text, true
	return nil
}

// Type is the kind of value in the help.
func (*onceText) Type() string { return "string" }
