package otlpexport

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/tracing"
)

// The signals of OTLP, as the environment variables name them.
const (
	traces  = "TRACES"
	metrics = "METRICS"
	logs    = "LOGS"
)

var signals = [...]string{traces, metrics, logs}

// The protocols of OTLP.
const (
	overGRPC = "grpc"
	overHTTP = "http/protobuf"
)

// target is where a signal goes.
type target struct {
	endpoint string // the whole URL; empty: the signal is not exported
	protocol string
}

// settings are those of OpenTelemetry that Stint obeys beyond what the exporters read
// themselves.
type settings struct {
	targets map[string]target // by signal
	sampler tracing.Sampler
	// logTimeout bounds one send of logs, with all its attempts.
	logTimeout time.Duration
}

// readSettings reads the flag and the environment. It returns nil if nothing is to be
// exported. The exporters read the headers, timeouts, certificates and compression
// themselves, and ignore mistakes in them, so these are checked here. Logs are exported only
// for the decision log.
func readSettings(flag string, decisionLog bool, getenv func(string) string) (*settings, error) {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		_, err := checkURL("otlp", flag)
		return nil, err
	}
	s := &settings{targets: map[string]target{}}
	for _, signal := range signals {
		t, err := readTarget(signal, flag, getenv)
		if err != nil {
			return nil, err
		}
		if t.endpoint != "" && (signal != logs || decisionLog) {
			s.targets[signal] = t
		}
	}
	if decisionLog && s.targets[logs].endpoint == "" {
		if name := exporterOf(logs); getenv(name) == "none" {
			return nil, fmt.Errorf("decision-log: otlp sends logs, and %s is none (remove one of them)", name)
		}
		return nil, errors.New("decision-log: otlp has no address of a collector (give --otlp URL, such as http://host:4318; a file of this name is ./otlp)")
	}
	if len(s.targets) == 0 {
		return nil, nil //nolint:nilnil // nothing is to be exported
	}
	for _, check := range []func(func(string) string) error{checkTimeouts, checkHeaders, checkAttributes, checkCompression, checkCertificates} {
		if err := check(getenv); err != nil {
			return nil, err
		}
	}
	s.logTimeout = defaultLogTimeout
	if n, err := strconv.Atoi(getenv(logTimeout)); err == nil { // it has been checked
		s.logTimeout = time.Duration(n) * time.Millisecond
	}
	var err error
	s.sampler, err = readSampler(getenv)
	return s, err
}

// logTimeout is the variable that bounds one send of logs. Its default is that of
// OpenTelemetry.
const (
	logTimeout        = "OTEL_BLRP_EXPORT_TIMEOUT"
	defaultLogTimeout = 30 * time.Second
)

// exporterOf returns the variable that turns a signal off.
func exporterOf(signal string) string { return "OTEL_" + signal + "_EXPORTER" }

// readTarget returns where a signal goes. The flag takes precedence over the variables of
// all endpoints.
func readTarget(signal, flag string, getenv func(string) string) (t target, err error) {
	if name := exporterOf(signal); getenv(name) == "none" {
		return t, nil
	} else if value := getenv(name); value != "" && value != "otlp" {
		return t, fmt.Errorf("%s: %q is not supported (use otlp or none)", name, value)
	}
	own, all := "OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"
	from, text := "otlp", flag
	if flag == "" {
		from, text = own, getenv(own)
	}
	if text == "" {
		from, text = all, getenv(all)
	}
	u, err := checkURL(from, text)
	if u == nil || err != nil {
		return t, err
	}
	if t.protocol, err = readProtocol(signal, getenv); err != nil {
		return t, err
	}
	if scheme, isGRPC := strings.CutPrefix(u.Scheme, "grpc"); isGRPC {
		u.Scheme, t.protocol = "http"+scheme, overGRPC
	}
	if t.protocol == overHTTP && from != own {
		u = u.JoinPath("v1", strings.ToLower(signal))
	}
	t.endpoint = u.String()
	return t, nil
}

// checkURL reads an endpoint; nil if it is empty. An error shows neither a password nor a
// token of the URL.
func checkURL(from, text string) (*url.URL, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // there is no endpoint
	}
	u, err := url.Parse(text)
	const form = "write it as http://host:4318, or grpc://host:4317"
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: is not a URL (%s)", from, form)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%s: the URL has a user, parameters or a fragment (give credentials in OTEL_EXPORTER_OTLP_HEADERS)", from)
	case u.Hostname() == "" || !validPort(u.Port()):
		return nil, fmt.Errorf("%s: %.80q has no host or no valid port (%s)", from, text, form)
	}
	switch u.Scheme {
	case "http", "https", "grpc", "grpcs":
		return u, nil
	}
	return nil, fmt.Errorf("%s: %.20q is not a scheme of OTLP (%s, or with https or grpcs)", from, u.Scheme, form)
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

func readProtocol(signal string, getenv func(string) string) (string, error) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		switch value := getenv(name); value {
		case "":
		case overGRPC, overHTTP:
			return value, nil
		default:
			return "", fmt.Errorf("%s: %q is not supported (use %s or %s)", name, value, overGRPC, overHTTP)
		}
	}
	return overHTTP, nil
}

// variables returns the names of a variable for all signals and for each.
func variables(name string) []string {
	names := []string{"OTEL_EXPORTER_OTLP_" + name}
	for _, signal := range signals {
		names = append(names, "OTEL_EXPORTER_OTLP_"+signal+"_"+name)
	}
	return names
}

// checkTimeouts checks the variables that are milliseconds.
func checkTimeouts(getenv func(string) string) error {
	for _, name := range append(variables("TIMEOUT"), "OTEL_METRIC_EXPORT_INTERVAL", "OTEL_METRIC_EXPORT_TIMEOUT", "OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_EXPORT_TIMEOUT", logTimeout) {
		value := getenv(name)
		if n, err := strconv.Atoi(value); value != "" && (err != nil || n <= 0 || n > int(time.Hour/time.Millisecond)) {
			return fmt.Errorf("%s: %.40q is not a number of milliseconds (use 1 to 3600000)", name, value)
		}
	}
	return nil
}

// checkHeaders checks the variables with header fields. Their values are secrets, so no
// error shows them.
func checkHeaders(getenv func(string) string) error {
	for _, name := range variables("HEADERS") {
		for pair := range strings.SplitSeq(getenv(name), ",") {
			if pair == "" {
				continue
			}
			field, value, ok := strings.Cut(pair, "=")
			if _, err := url.PathUnescape(value); !ok || strings.TrimSpace(field) == "" || err != nil {
				return fmt.Errorf("%s: is not a list of header fields (write it as name=value,name=value, with %%2C for a comma)", name)
			}
		}
	}
	return nil
}

// checkAttributes checks the attributes that describe this process.
func checkAttributes(getenv func(string) string) error {
	const name = "OTEL_RESOURCE_ATTRIBUTES"
	for pair := range strings.SplitSeq(getenv(name), ",") {
		field, value, ok := strings.Cut(pair, "=")
		if _, err := url.PathUnescape(value); pair != "" && (!ok || strings.TrimSpace(field) == "" || err != nil) {
			return fmt.Errorf("%s: %.80q is not an attribute (write them as name=value,name=value, with %%2C for a comma)", name, pair)
		}
	}
	return nil
}

func checkCompression(getenv func(string) string) error {
	for _, name := range variables("COMPRESSION") {
		if value := getenv(name); value != "" && value != "gzip" && value != "none" {
			return fmt.Errorf("%s: %.40q is not supported (use gzip or none)", name, value)
		}
	}
	return nil
}

// checkCertificates checks the files of the authorities that sign the collector's certificate,
// and of the client certificate with its key.
func checkCertificates(getenv func(string) string) error {
	for _, name := range variables("CERTIFICATE") {
		path := getenv(name)
		if path == "" {
			continue
		}
		pem, err := os.ReadFile(path) //nolint:gosec // the operator names the file
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s: %s has no certificate (name a PEM file)", name, path)
		}
	}
	keys := variables("CLIENT_KEY")
	for i, name := range variables("CLIENT_CERTIFICATE") {
		certificate, key := getenv(name), getenv(keys[i])
		if certificate == "" && key == "" {
			continue
		}
		if certificate == "" || key == "" {
			return fmt.Errorf("%s: is given without %s, or the other way round (give both)", name, keys[i])
		}
		if _, err := tls.LoadX509KeyPair(certificate, key); err != nil {
			return fmt.Errorf("%s: %w (name PEM files of a certificate and of its key)", name, err)
		}
	}
	return nil
}

// defaultRatio is the share of the requests without a trace context that is recorded
// unless OTEL_TRACES_SAMPLER says otherwise. The default of OpenTelemetry is all of them,
// which is too much for a service that answers every request of others.
const defaultRatio = 0.01

// readSampler reads OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG.
func readSampler(getenv func(string) string) (tracing.Sampler, error) {
	const name, argument = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
	kind, byParent := strings.CutPrefix(cmp.Or(getenv(name), "parentbased_traceidratio"), "parentbased_")
	s := tracing.Sampler{Parent: byParent}
	switch kind {
	case "always_on":
		s.Ratio = 1
	case "always_off":
	case "traceidratio":
		s.Ratio = defaultRatio
		if text := getenv(argument); text != "" {
			ratio, err := strconv.ParseFloat(text, 64)
			if err != nil || !(ratio >= 0 && ratio <= 1) {
				return s, fmt.Errorf("%s: %.40q is not a share (use 0 to 1, such as 0.01)", argument, text)
			}
			s.Ratio = ratio
		}
	default:
		return s, fmt.Errorf("%s: %.40q is not supported (use parentbased_traceidratio, parentbased_always_on, parentbased_always_off, or one of these without parentbased_)", name, getenv(name))
	}
	return s, nil
}
