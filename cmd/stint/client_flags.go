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

// callerFlags say as whom a server is asked, and how it is known to be the one.
type callerFlags struct {
	tokenFile              string
	tlsCA, tlsCert, tlsKey string
}

func (f *callerFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&f.tokenFile, "token-file", "", "`FILE` with the token, in place of $STINT_TOKEN")
	flags.StringVar(&f.tlsCA, "tls-ca", "", "PEM `FILE` of the authorities that sign the server's certificate (default the system's)")
	flags.StringVar(&f.tlsCert, "tls-cert", "", "PEM `FILE` of a client certificate")
	flags.StringVar(&f.tlsKey, "tls-key", "", "PEM `FILE` of its key")
}

// token is that of the file, else that of the environment; empty: none.
func (f *callerFlags) token() (string, error) {
	token, err := readToken("token-file", f.tokenFile)
	if err != nil {
		return "", err
	}
	if token == "" {
		token = os.Getenv("STINT_TOKEN")
	}
	if strings.ContainsFunc(token, unicode.IsControl) {
		return "", usagef("token: has control characters, which no token has")
	}
	return token, nil
}

// transport is how the server is reached.
func (f *callerFlags) transport() (http.RoundTripper, error) {
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

// defaultAdmin is where stint serve administers unless told otherwise.
const defaultAdmin = "http://127.0.0.1:6070"

// adminHelp ends the help of every command that asks a server.
const adminHelp = `

The server is asked on its --admin listener: --server, or the environment
variable STINT_SERVER. A token, where it asks for one, is read from STINT_TOKEN
or from --token-file. With --json the answer is printed as the server gave it.`

// adminFlags say which server is asked, as whom, and how its answer is printed.
type adminFlags struct {
	callerFlags

	server                 string
	source, sourcePassword string
	sourcePrefix           string
	json                   bool
	client                 *adminclient.Client
	closeSource            func()
	in                     io.Reader
	out, errs              io.Writer
}

func (f *adminFlags) define(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.server, "server", "", "`URL` of the server's --admin listener (default $STINT_SERVER, else "+defaultAdmin+")")
	f.callerFlags.define(flags)
	flags.BoolVar(&f.json, "json", false, "print JSON")
	c.Long += adminHelp
}

// defineSource lets the command work where no server runs.
func (f *adminFlags) defineSource(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.source, "source", "", "in place of a server: the `URL` of the rules themselves, redis://… or postgres://…, as stint serve --rules takes it")
	flags.StringVar(&f.sourcePassword, "source-password-file", "", "`FILE` with the password of --source")
	flags.StringVar(&f.sourcePrefix, "key-prefix", defaultKeyPrefix, "what begins the keys or tables of --source")
}

// running makes a command's RunE of what it does once it knows whom to ask.
func (f *adminFlags) running(do func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		f.in, f.out, f.errs = c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr()
		if err := checkGiven(c.Flags()); err != nil {
			return err
		}
		if err := f.connect(c.Context()); err != nil {
			return err
		}
		if f.closeSource != nil {
			defer f.closeSource()
		}
		err := do(c.Context(), args)
		_, refused := errors.AsType[*adminclient.Error](err)
		if err == nil || !refused && exitStatus(err) == exitUsage { // which begins with where the mistake is
			return err
		}
		return fmt.Errorf("%s: %w", strings.TrimPrefix(c.CommandPath(), "stint "), err)
	}
}

// ofServer and ofSource are flags of the one way to reach rules, which would not
// be heeded on the other.
func ofServer() []string { return []string{"server", "token-file", "tls-ca", "tls-cert", "tls-key"} }
func ofSource() []string { return []string{"source-password-file", "key-prefix"} }

// checkGiven refuses what was given and would not be heeded. A flag that is
// empty is that of a variable that is not set, and its default somebody else's.
func checkGiven(flags *pflag.FlagSet) (err error) {
	source := flags.Changed("source")
	flags.Visit(func(given *pflag.Flag) {
		name, mayBeEmpty := given.Name, given.Value.Type() != "string" || given.Name == "comment" || given.Name == "reason"
		switch {
		case given.Value.String() == "" && !mayBeEmpty:
			err = usagef("%s: is given, and empty (give a value, or leave it out)", name)
		case source && slices.Contains(ofServer(), name):
			err = usagef("source: and --%s are both given (give one of them)", name)
		case !source && slices.Contains(ofSource(), name):
			err = usagef("%s: is given without --source (give both, or none)", name)
		}
	})
	return err
}

// connect makes the client. It sends nothing.
func (f *adminFlags) connect(ctx context.Context) error {
	f.client = &adminclient.Client{Author: author()}
	if f.source != "" {
		return f.openSource(ctx)
	}
	var err error
	if f.client.URL, err = f.address(); err != nil {
		return err
	}
	if f.client.Token, err = f.token(); err != nil {
		return err
	}
	f.client.Transport, err = f.transport()
	return err
}

func (f *adminFlags) address() (*url.URL, error) {
	name, text := "server", f.server
	if text == "" {
		name, text = "STINT_SERVER", os.Getenv("STINT_SERVER")
	}
	if text == "" {
		text = defaultAdmin
	}
	return serverURL(name, text, "http://host:6070; rules in Redis or PostgreSQL are reached by --source")
}

// serverURL is the address of a server, which name has. such is how to write it.
func serverURL(name, text, such string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "":
		return nil, usagef("%s: %q is not a URL (write it as %s)", name, redacted(u), such)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, usagef("%s: %s is not the address of a server (write it as %s)", name, schemeOf(text), such)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, usagef("%s: has a query or a fragment, which no address of a server has (write it as %s)", name, such)
	case u.User != nil:
		return nil, usagef("%s: has a user or a password in it (put the token into STINT_TOKEN)", name)
	}
	return u, nil
}

// author is who runs this, where the server does not know it by a token.
func author() string {
	u, err := user.Current()
	if err != nil || strings.ContainsFunc(u.Username, unicode.IsControl) {
		return ""
	}
	return u.Username
}

// ask asks, and prints the answer: as it is, or by the given function.
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
	_, err := fmt.Fprintln(f.out, exact(f.out, string(bytes.TrimSpace(a.Body))))
	return err
}

// checkComment refuses what cannot travel in a header.
func checkComment(flag, text string) error {
	if len(text) > 2000 || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return usagef("%s: is longer than 2000 bytes, or not UTF-8, or has line breaks or other control characters", flag)
	}
	return nil
}

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
