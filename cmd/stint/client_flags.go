package main

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"strings"
	"unicode"

	"github.com/spf13/pflag"
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
