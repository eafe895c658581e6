package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stintdev/stint/cmd/stint/internal/adminapi"
	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/cmd/stint/internal/server"
	"github.com/stintdev/stint/rule"
)

// clientFlags are the credentials and the TLS settings of a command that calls
// a server.
type clientFlags struct {
	tokenFile              string
	tlsCA, tlsCert, tlsKey string
}

func (f *clientFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&f.tokenFile, "token-file", "", "`FILE` with the token (default $STINT_TOKEN)")
	flags.StringVar(&f.tlsCA, "tls-ca", "", "PEM `FILE` of the authorities that sign the server's certificate (default the system's)")
	flags.StringVar(&f.tlsCert, "tls-cert", "", "PEM `FILE` of the client certificate")
	flags.StringVar(&f.tlsKey, "tls-key", "", "PEM `FILE` of the client certificate's key")
}

// token returns the token of the file, or the token of the environment if there is no file. It
// is empty if neither is set.
func (f *clientFlags) token() (string, error) {
	text, err := openSecret("token-file", "token", f.tokenFile)
	if err != nil {
		return "", err
	}
	token := text.Value()
	if token == "" {
		token = os.Getenv("STINT_TOKEN")
	}
	if strings.ContainsFunc(token, unicode.IsControl) {
		return "", usagef("token: contains control characters, such as a line break (remove them)")
	}
	return token, nil
}

func (f *clientFlags) transport() (http.RoundTripper, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.tlsCA != "" {
		pem, err := os.ReadFile(f.tlsCA)
		if err != nil {
			return nil, usagef("tls-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, usagef("tls-ca: %s holds no certificate in PEM", f.tlsCA)
		}
	}
	if f.tlsCert != "" || f.tlsKey != "" {
		pair, err := tls.LoadX509KeyPair(f.tlsCert, f.tlsKey)
		if err != nil {
			return nil, usagef("tls-cert: %w (give --tls-cert and --tls-key)", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config}, nil
}

// sourceFlags name the database that holds the rules, for commands that work
// without a server.
type sourceFlags struct {
	url, passwordFile, keyPrefix string
}

func (f *sourceFlags) define(flags *pflag.FlagSet, usage string) {
	flags.StringVar(&f.url, "source", "", usage)
	flags.StringVar(&f.passwordFile, "source-password-file", "", "`FILE` with the password of --source")
	flags.StringVar(&f.keyPrefix, "key-prefix", defaultKeyPrefix, "prefix of the keys or tables of --source")
}

// open opens the database. The caller closes it.
func (f *sourceFlags) open(log *slog.Logger) (ruleset.Source, func(), error) {
	serve := serveFlags{rules: f.url, rulesPasswordFile: f.passwordFile, keyPrefix: f.keyPrefix, stateDir: off}
	var config server.Config
	closeSource, err := serve.openRules(&config, log)
	if err != nil {
		return nil, nil, err
	}
	if config.RuleSource == nil {
		return nil, nil, usagef("source: %s is a file or folder, not a database (edit it; its servers reload it)", f.url)
	}
	return config.RuleSource, closeSource, nil
}

// errorLog returns a logger for a library that works for a command: it shows
// errors only.
func errorLog(errs io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(errs, &slog.HandlerOptions{Level: slog.LevelError}))
}

// defaultAdmin is the default admin listener of stint serve.
const defaultAdmin = "http://127.0.0.1:6070"

// adminHelp ends the help of every command that calls the admin API.
const adminHelp = `

The command calls the --admin listener of a server: the URL of --server, or of
the environment variable STINT_SERVER. If the server requires a token, put it
into STINT_TOKEN or into a file for --token-file. With --json the server's answer
is printed unchanged.`

// adminFlags are the flags of a command that calls the admin API, and what the
// command needs while it runs.
type adminFlags struct {
	clientFlags

	source    sourceFlags
	server    string
	json      bool
	client    *adminclient.Client
	in        io.Reader
	out, errs io.Writer
}

func (f *adminFlags) define(c *cobra.Command) {
	c.Flags().BoolVar(&f.json, "json", false, "print JSON")
	grouped(c.Flags(), "Server", func(flags *pflag.FlagSet) {
		flags.StringVar(&f.server, "server", "", "`URL` of the server's --admin listener (default $STINT_SERVER, else "+defaultAdmin+")")
		f.clientFlags.define(flags)
	})
	c.Long += adminHelp
}

// defineSource also lets the command work without a server.
func (f *adminFlags) defineSource(c *cobra.Command) {
	grouped(c.Flags(), "Without a server", func(flags *pflag.FlagSet) {
		f.source.define(flags, "`URL` of the rules, redis://… or postgres://…, as in stint serve --rules")
	})
}

// running returns a RunE that connects, calls do and disconnects.
func (f *adminFlags) running(do func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		f.in, f.out, f.errs = c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr()
		if err := checkGiven(c.Flags()); err != nil {
			return err
		}
		disconnect, err := f.connect(c.Context())
		if err != nil {
			return err
		}
		defer disconnect()
		err = do(c.Context(), args)
		err = unreached(err, "is stint serve running? Start it, or give --server or STINT_SERVER the URL of its --admin listener")
		_, refused := errors.AsType[*adminclient.Error](err)
		if err == nil || !refused && exitStatus(err) == exitUsage { // a usage error begins with its place
			return err
		}
		return fmt.Errorf("%s: %w", strings.TrimPrefix(c.CommandPath(), "stint "), err)
	}
}

// unreached adds a mend to the error of a connection that could not be opened: no server
// runs there, or the address is wrong.
func unreached(err error, mend string) error {
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Op == "dial" {
		return fmt.Errorf("%w (%s)", err, mend)
	}
	return err
}

// checkGiven rejects flags that would have no effect, and flags that are given
// but empty: an empty one usually comes from a shell variable that is not set,
// and its default could mean another server or every rule.
func checkGiven(flags *pflag.FlagSet) (err error) {
	source := flags.Changed("source")
	serverOnly := []string{"server", "token-file", "tls-ca", "tls-cert", "tls-key"}
	sourceOnly := []string{"source-password-file", "key-prefix"}
	flags.Visit(func(given *pflag.Flag) {
		name, mayBeEmpty := given.Name, given.Value.Type() != "string" || given.Name == "comment" || given.Name == "reason"
		switch {
		case given.Value.String() == "" && !mayBeEmpty:
			err = usagef("%s: is given, and empty (give a value, or leave it out)", name)
		case source && slices.Contains(serverOnly, name):
			err = usagef("source: and --%s are both given (give one of them)", name)
		case !source && slices.Contains(sourceOnly, name):
			err = usagef("%s: is given without --source (give both, or neither)", name)
		}
	})
	return err
}

// connect makes the client, and returns the function that closes what it uses.
// It sends nothing to a server.
func (f *adminFlags) connect(ctx context.Context) (disconnect func(), err error) {
	f.client = &adminclient.Client{Author: author()}
	if f.source.url != "" {
		return f.connectSource(ctx)
	}
	if f.client.URL, err = f.address(); err != nil {
		return nil, err
	}
	if f.client.Token, err = f.token(); err != nil {
		return nil, err
	}
	f.client.Transport, err = f.transport()
	return func() {}, err
}

// author returns the name of the user, for changes on a server that does not
// learn a name from a token.
func author() string {
	u, err := user.Current()
	if err != nil || strings.ContainsFunc(u.Username, unicode.IsControl) {
		return ""
	}
	return u.Username
}

// connectSource serves the admin API within this process, on the database that
// --source names. Nodes follow a version published there, and the first node
// finds it when it starts.
func (f *adminFlags) connectSource(ctx context.Context) (disconnect func(), err error) {
	log := errorLog(f.errs)
	source, closeSource, err := f.source.open(log)
	if err != nil {
		return nil, err
	}
	manager, err := loadSource(ctx, source, log)
	if err != nil {
		closeSource()
		return nil, err
	}
	f.client.URL = &url.URL{Scheme: "http", Host: "localhost"}
	f.client.Transport = adminclient.InProcess{Handler: adminapi.New(adminapi.Config{Rules: manager, Logger: log})}
	return closeSource, nil
}

// loadSource reads the newest version. It fails if that version cannot be read,
// so that no change replaces it unseen.
func loadSource(ctx context.Context, source ruleset.Source, log *slog.Logger) (*ruleset.Manager, error) {
	var rejected error
	manager := ruleset.NewManager(ruleset.Options{
		Source: source, Logger: log,
		OnSet:   func(*rule.Set, ruleset.Version) {},
		OnError: func(err error) { rejected = err },
	})
	if err := manager.Load(ctx); err != nil {
		return nil, err
	}
	if errors.Is(rejected, ruleset.ErrDamaged) {
		return nil, fmt.Errorf("source: %w (publish another version through a running server, with --server)", rejected)
	}
	if rejected != nil {
		return nil, fmt.Errorf("source: %w", unreached(rejected, "check that the database runs, and the address of --source"))
	}
	return manager, nil
}

func (f *adminFlags) address() (*url.URL, error) {
	name, text := "server", f.server
	if text == "" {
		name, text = "STINT_SERVER", os.Getenv("STINT_SERVER")
	}
	if text == "" {
		text = defaultAdmin
	}
	return serverURL(name, text, "http://host:6070; for rules in Redis or PostgreSQL use --source")
}

// serverURL parses the address of a server. name is the flag or variable that
// has it, and example shows how to write one.
func serverURL(name, text, example string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case (err != nil || u.Host == "") && strings.Contains(text, ",") && !strings.Contains(example, ","):
		return nil, usagef("%s: has several addresses, and this command needs one (write it as %s)", name, example)
	case err != nil || u.Host == "":
		return nil, usagef("%s: %q is not a URL (write it as %s)", name, redacted(u), example)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, usagef("%s: %s is not the address of a server (write it as %s)", name, schemeOf(text), example)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, usagef("%s: contains a query or a fragment (write it as %s)", name, example)
	case u.User != nil:
		return nil, usagef("%s: contains a user or a password (put the token into STINT_TOKEN)", name)
	}
	return u, nil
}

// ask sends a request and prints the answer. With --json it prints JSON; without, it decodes the
// answer into the given object and calls table.
func (f *adminFlags) ask(ctx context.Context, q adminclient.Request, into adminclient.Object, table func(io.Writer) error) error {
	a, err := f.client.Into(ctx, q, into)
	if err != nil {
		return err
	}
	return f.print(a, table)
}

func (f *adminFlags) print(a adminclient.Answer, table func(io.Writer) error) error {
	if !f.json {
		return table(f.out)
	}
	_, err := fmt.Fprintln(f.out, sanitizeFor(f.out, string(bytes.TrimSpace(a.Body))))
	return err
}

// checkComment rejects a comment that an HTTP header cannot carry.
func checkComment(flag, text string) error {
	if len(text) > 2000 || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return usagef("%s: is longer than 2000 bytes, or not UTF-8, or has line breaks or other control characters", flag)
	}
	return nil
}
