package dynamostore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
)

// throttled has the codes of answers that ask for fewer calls. Nothing was written.
var throttled = map[string]bool{
	"ProvisionedThroughputExceededException": true, "ProvisionedThroughputExceeded": true, "ThrottlingException": true, "ThrottlingError": true,
	"Throttling": true, "RequestLimitExceeded": true, "TooManyRequestsException": true,
}

const mendThrottled = "lease the hot keys (consistency: leased), or raise the capacity of the table"

// conflicts has the codes of answers that say that another write was first. Nothing was
// written.
var conflicts = map[string]bool{
	"ConditionalCheckFailedException": true, "ConditionalCheckFailed": true, "TransactionConflictException": true, "TransactionConflict": true,
	"ReplicatedWriteConflictException": true,
}

// meaning explains an answer of DynamoDB to an operator.
type meaning struct {
	kind          stint.Kind
	problem, mend string
}

var (
	wrongCredentials = meaning{"noauth", "does not accept the credentials", "check AWS_ACCESS_KEY_ID, AWS_PROFILE or the role of the machine, and that the clock is right"}
	wrongLayout      = meaning{"schema", "has another layout than that of the store", "use a table that stint store migrate has made, for Stint alone"}
	wrongServer      = meaning{"version", "is on a server that lacks an operation", "give ?transactions=false in the store's URL if it has no TransactWriteItems"}
)

// meanings has the known errors by their codes. Nothing was written.
var meanings = map[string]meaning{
	"ResourceNotFoundException":           {"table", "does not exist", "make it by stint store migrate with the store's URL, or check the name and the region in it"},
	"ResourceInUseException":              {"table", "is being made or deleted", "wait until it is ready"},
	"AccessDeniedException":               {"noperm", "does not permit what Stint needs", "allow dynamodb:GetItem, dynamodb:BatchGetItem and dynamodb:PutItem on the table; stint store migrate needs CreateTable, DescribeTable, DescribeTimeToLive and UpdateTimeToLive"},
	"UnrecognizedClientException":         wrongCredentials,
	"InvalidSignatureException":           wrongCredentials,
	"IncompleteSignatureException":        wrongCredentials,
	"IncompleteSignature":                 wrongCredentials,
	"MissingAuthenticationToken":          wrongCredentials,
	"MissingAuthenticationTokenException": wrongCredentials,
	"InvalidClientTokenId":                wrongCredentials,
	"SignatureDoesNotMatch":               wrongCredentials,
	"AuthFailure":                         wrongCredentials,
	"ExpiredTokenException":               {"noauth", "does not accept the credentials, which have expired", "renew AWS_SESSION_TOKEN, or let the SDK take a role that renews itself"},
	"OptInRequired":                       {"noauth", "is in a region that the account has not enabled", "enable the region, or give another one in the store's URL"},
	"ValidationException":                 wrongLayout,
	"ValidationError":                     wrongLayout,
	"UnknownOperationException":           wrongServer,
	"UnknownOperation":                    wrongServer,
	"SerializationException":              wrongServer,
}

// explain turns the failure of a call into an error of a [cas.Backend]. connected says
// whether the call got a connection: without one nothing was sent.
func (c *client) explain(ctx context.Context, connected bool, err error) error {
	if known, ok := errors.AsType[*stint.Error](err); ok {
		return known
	}
	status := statusOf(err)
	answer, answered := errors.AsType[smithy.APIError](err)
	switch {
	case status >= http.StatusInternalServerError:
		return &stint.Error{
			Code: stint.CodeTimeout, Kind: "server", Problem: c.place + " failed: whether it was charged is unknown",
			Mend: "see the status of DynamoDB in the region, if it lasts", Err: err,
		}
	case answered && status >= http.StatusBadRequest:
		return c.answered(answer, err)
	case !connected:
		return c.notConnected(ctx, err)
	case ctx.Err() == nil && isUnreadable(err):
		return &stint.Error{
			Code: stint.CodeInternal, Kind: stint.KindGarbled, Problem: "the answer is not one of " + c.place,
			Mend: "check the endpoint in the store's URL, and what is between it and this process", Err: err,
		}
	}
	return cas.NoAnswer(ctx, c.place, err)
}

// statusOf returns the HTTP status of the answer, or 0 if there was none.
func statusOf(err error) int {
	if r, ok := errors.AsType[*awshttp.ResponseError](err); ok && r.Response != nil && r.Response.Response != nil {
		return r.HTTPStatusCode()
	}
	return 0
}

// isUnreadable reports whether an answer arrived whole, and could not be read.
func isUnreadable(err error) bool {
	_, broken := errors.AsType[net.Error](err)
	return statusOf(err) > 0 && !broken && !errors.Is(err, io.ErrUnexpectedEOF)
}

// answered explains an error that DynamoDB answered with. Nothing was written.
func (c *client) answered(answer smithy.APIError, err error) error {
	code := codeOf(answer)
	if throttled[code] {
		return cas.Throttled(c.place, mendThrottled, err)
	}
	m, known := meanings[code]
	if !known {
		m = meaning{"server", "answered with an error", "see the documentation of DynamoDB on it"}
	}
	return &stint.Error{Code: stint.CodeUnavailable, Kind: m.kind, Problem: c.place + " " + m.problem, Mend: m.mend, Err: err}
}

// codeOf returns the code of an answer. That of a canceled transaction is the first one of
// its reasons.
func codeOf(answer smithy.APIError) string {
	if canceled, ok := errors.AsType[*types.TransactionCanceledException](answer); ok {
		for _, r := range canceled.CancellationReasons {
			if r.Code != nil && *r.Code != "None" {
				return *r.Code
			}
		}
	}
	return answer.ErrorCode()
}

// notConnected explains a call that was not sent.
func (c *client) notConnected(ctx context.Context, err error) error {
	e := &stint.Error{
		Code: stint.CodeUnavailable, Kind: "connection", Problem: "no connection to " + c.place,
		Mend: "check the region or the endpoint in the store's URL, and the network", Err: err,
	}
	if _, none := errors.AsType[*noCredentials](err); none {
		e.Kind, e.Problem = "noauth", "no credentials for "+c.place
		e.Mend = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give the machine or container a role"
		if ctx.Err() != nil {
			e.Problem = "no credentials for " + c.place + " within the time of the call"
		}
	}
	if tlsFailed(err) {
		e.Kind, e.Mend = "tls", "check the certificate of the endpoint, and AWS_CA_BUNDLE"
	}
	return e
}

// tlsFailed reports whether TLS could not be agreed on.
func tlsFailed(err error) bool {
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	return errors.As(err, &verify) || errors.As(err, &record) || errors.As(err, &unknown) || strings.Contains(err.Error(), "tls: ")
}

// nothingWritten reports whether the call that failed with this error of explain has
// certainly written nothing, now and later.
func nothingWritten(err error) bool {
	switch stint.CodeOf(err) {
	case stint.CodeUnavailable, stint.CodeExhausted:
		return true
	}
	return false
}

// lostTo reports whether an error of a call says that another write was first, and returns
// the item that is there instead if the error has it.
func lostTo(err error) (item map[string]types.AttributeValue, lost bool) {
	if failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return failed.Item, true
	}
	answer, ok := errors.AsType[smithy.APIError](err)
	return nil, ok && conflicts[answer.ErrorCode()]
}

// wrongOption returns the error of an invalid option.
func wrongOption(problem, mend string) error {
	return &stint.Error{Code: stint.CodeInvalid, Kind: "options", Problem: "dynamostore: " + problem, Mend: mend}
}

func wrongURL(problem, mend string) error {
	return &stint.Error{Code: stint.CodeInvalid, Kind: "url", Problem: "store URL: " + problem, Mend: mend}
}
