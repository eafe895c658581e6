package dynamostore

import (
	"cmp"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/stintdev/stint"
)

// Options configures a store: the table and the way to reach it. [ParseURL] makes them from
// a URL. Only Table is required.
type Options struct {
	// Table is the name of the table, which [Migrate] makes.
	Table string
	// Region is the region of AWS, such as "eu-west-1". Empty means that of Config.
	Region string
	// Endpoint is the URL of a server that is not AWS's own, such as an emulator or a VPC
	// endpoint. Empty means that of Config, and by default AWS's in the region.
	Endpoint string
	// Config has the credentials, the region and the HTTP client. Nil means that the SDK
	// reads them from the environment, as config.LoadDefaultConfig of the SDK does. The
	// store does not use its Retryer: the store decides itself what is repeated.
	Config *aws.Config
	// NoTransactions writes a group across identities item by item, without a transaction.
	// Such a group then costs half as much; laws 1 and 6 of package storetest then hold
	// between processes up to one round trip. It is also for servers without
	// TransactWriteItems.
	NoTransactions bool

	// Prefix begins every key: at most 64 bytes of text without braces and spaces. Stores
	// with different prefixes share the table and no counts. Empty means "stint".
	Prefix string
	// Clock returns the time of decisions, which the store rounds down to a microsecond.
	// It must be safe for concurrent use. Nil means the clock of this process.
	Clock func() time.Time
	// KeepFor is the least time for which an item is kept. It is for a Clock that is not in
	// step with the real time, such as that of a test.
	KeepFor time.Duration
	// Timeout bounds one call. 0 means 1 s.
	Timeout time.Duration
	// Heartbeat is the interval at which the store announces itself and compares clocks,
	// by a read and a write of one item that all processes share. 0 means 5 s; below 0
	// means never.
	Heartbeat time.Duration
	// CallerBytes bounds the bytes that this process writes for limits that callers bring
	// ([stint.Spec.FromCaller]). Beyond it, new keys of such limits are refused with
	// CodeExhausted. 0 means 256 MiB.
	CallerBytes int64
	// Observer sees every call to DynamoDB for claims as a [stint.EventStoreCall] of the
	// name "dynamostore". A call carries the claims of one caller or several; its context
	// is that of a lone caller, and has none of several. Nil costs nothing.
	Observer stint.Observer
	// Logger receives messages about problems that an operator should fix. Nil means no
	// logging.
	Logger *slog.Logger
}

const (
	defaultPrefix  = "stint"
	defaultTimeout = time.Second
	// defaultHeartbeat is longer than that of other stores, because each heartbeat of each
	// process costs money.
	defaultHeartbeat = 5 * time.Second
)

// tableName matches the names that DynamoDB permits.
var tableName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{3,255}$`)

// setDefaults fills in the defaults and returns an error if an option is invalid.
func (o *Options) setDefaults() error {
	o.Prefix = cmp.Or(o.Prefix, defaultPrefix)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.Heartbeat = cmp.Or(o.Heartbeat, defaultHeartbeat)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case !tableName.MatchString(o.Table):
		return wrongOption("Table is not the name of a table", "use 3 to 255 letters, digits, and any of _ . -")
	case len(o.Prefix) > 64 || strings.ContainsAny(o.Prefix, "{} \t\r\n\x00"):
		return wrongOption("Prefix is longer than 64 bytes, or has a brace, a space or a zero byte", "use text such as stint:blue")
	case o.Timeout < 0 || o.KeepFor < 0:
		return wrongOption("Timeout or KeepFor is below 0", "use 0 for the default")
	case o.Endpoint != "" && !isEndpoint(o.Endpoint):
		return wrongOption("Endpoint is not the URL of a server", "write it as http://127.0.0.1:8000")
	}
	return nil
}

// isEndpoint reports whether the text is the URL of a server, without a user: credentials
// come from the SDK.
func isEndpoint(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

// String returns the URL of the table. It contains no credentials.
func (o Options) String() string {
	query := url.Values{}
	for name, value := range map[string]string{"region": o.Region, "endpoint": o.Endpoint} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if o.NoTransactions {
		query.Set("transactions", "false")
	}
	text := "dynamodb://" + o.Table
	if len(query) > 0 {
		text += "?" + readable.Replace(query.Encode())
	}
	return text
}

// readable undoes what a query need not escape.
var readable = strings.NewReplacer("%3A", ":", "%2F", "/")

// GoString returns String, so that no way of printing shows the credentials of Config.
func (o Options) GoString() string { return o.String() }

// LogValue returns String for a log line.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }
