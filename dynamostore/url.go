package dynamostore

import (
	"net/url"
	"strconv"
	"strings"
	"time"
)

// ParseURL reads the URL of a store:
//
//	dynamodb://TABLE[?parameters]
//
// The credentials are not part of it: they come from the SDK of AWS, which reads them from
// variables, from files, or from the role of the machine or container. It may have these
// parameters:
//
//	region=eu-west-1              the region; by default that of the SDK (AWS_REGION)
//	endpoint=http://localhost:8000  another server than AWS's
//	transactions=false            write groups across identities item by item: see Options.NoTransactions
//	timeout=1s                    of one call
//
// Errors are an [*stint.Error] of CodeInvalid.
func ParseURL(text string) (Options, error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found || scheme != "dynamodb" {
		return Options{}, wrongURL("it does not begin with dynamodb://", "write it as dynamodb://table?region=eu-west-1")
	}
	table, query, _ := strings.Cut(rest, "?")
	if strings.Contains(table, "@") {
		return Options{}, wrongURL("it has a user", "leave it out: the credentials are those of the SDK of AWS, such as AWS_PROFILE or the role of the machine")
	}
	if table = strings.TrimSuffix(table, "/"); !tableName.MatchString(table) {
		return Options{}, wrongURL("it does not name a table", "write it as dynamodb://table?region=eu-west-1; a name has 3 to 255 letters, digits, and any of _ . -")
	}
	o := Options{Table: table}
	values, err := url.ParseQuery(query)
	if err != nil {
		return Options{}, wrongURL("the query is not name=value&name=value", "")
	}
	for name, list := range values {
		if len(list) > 1 {
			return Options{}, wrongURL("a parameter is given twice", "")
		}
		if problem := o.read(name, list[0]); problem != "" {
			return Options{}, wrongURL(problem, "")
		}
	}
	return o, nil
}

// read reads one parameter, and returns what is wrong with it.
func (o *Options) read(name, value string) (problem string) {
	var err error
	switch name {
	case "region":
		if o.Region = value; !isRegion(value) {
			return "region is not the name of a region, such as eu-west-1"
		}
	case "endpoint":
		if o.Endpoint = value; !isEndpoint(value) {
			return "endpoint is not the URL of a server, such as http://127.0.0.1:8000"
		}
	case "transactions":
		var on bool
		if on, err = strconv.ParseBool(value); err != nil {
			return "transactions is neither true nor false"
		}
		o.NoTransactions = !on
	case "timeout":
		if o.Timeout, err = time.ParseDuration(value); err != nil || o.Timeout <= 0 {
			return "timeout is not a time above 0, such as 250ms"
		}
	default:
		return "the query has an unknown parameter (known are region, endpoint, transactions and timeout)"
	}
	return ""
}

// isRegion reports whether the text can be the name of a region. It becomes part of a host
// name.
func isRegion(text string) bool {
	return text != "" && len(text) <= 63 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
