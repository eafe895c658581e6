package dynamostore

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
)

// The attributes of an item.
const (
	keyAttribute     = "key"     // binary, the partition key
	stateAttribute   = "state"   // binary
	versionAttribute = "version" // a number, random for each write
	expiresAttribute = "expires" // a number, in seconds since 1970: the time-to-live attribute
)

const (
	// maxBatch is the greatest number of items in a BatchGetItem or TransactWriteItems.
	maxBatch = 100
	// maxTransaction is the greatest size of the items of a transaction, which DynamoDB
	// limits to 4 MB. It leaves room for the names and keys of maxBatch items.
	maxTransaction = 4_000_000 - maxBatch*512
	// clockSlack is how much longer items are kept than asked for, because the clock of
	// DynamoDB decides when they expire. DynamoDB refuses the requests of a process whose
	// clock is off by more than that: the SDK must not correct the time of its signatures.
	clockSlack = 15 * time.Minute
)

// backend reads and writes items: a [cas.Backend] that is a [cas.Prober].
type backend struct {
	*client

	prefix string // of every key
}

// transacting is a backend that is [cas.Atomic].
type transacting struct{ *backend }

// attributes are those of one item.
type attributes = map[string]types.AttributeValue

// Load implements [cas.Backend]. The time is zero: DynamoDB has no clock that decisions
// could use.
func (b *backend) Load(ctx context.Context, loads []cas.Load) (time.Time, error) {
	if len(loads) == 1 {
		return time.Time{}, b.read(ctx, b.getting(&loads[0]))
	}
	return time.Time{}, b.loadAll(ctx, loads)
}

// getting returns the call that reads one item.
func (b *backend) getting(l *cas.Load) func(context.Context) error {
	return func(ctx context.Context) error {
		out, err := b.api.GetItem(ctx, &dynamodb.GetItemInput{TableName: &b.table, Key: b.keyOf(l.Key), ConsistentRead: aws.Bool(true)})
		if err == nil && out.Item != nil {
			l.Item, l.Err = itemOf(out.Item)
		}
		return err
	}
}

func (b *backend) loadAll(ctx context.Context, loads []cas.Load) error {
	index := make(map[string]int, len(loads))
	keys := make([]attributes, len(loads))
	for i := range loads {
		index[b.prefix+loads[i].Key] = i
		keys[i] = b.keyOf(loads[i].Key)
	}
	request := map[string]types.KeysAndAttributes{b.table: {Keys: keys, ConsistentRead: aws.Bool(true)}}
	return b.read(ctx, func(ctx context.Context) error {
		out, err := b.api.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: request})
		if err != nil {
			return err
		}
		for _, list := range out.Responses {
			for _, a := range list {
				i, known := index[bytesOf(a, keyAttribute)]
				if !known {
					return errGarbled
				}
				loads[i].Item, loads[i].Err = itemOf(a)
			}
		}
		for _, left := range out.UnprocessedKeys {
			for _, key := range left.Keys {
				if i, known := index[bytesOf(key, keyAttribute)]; known {
					loads[i].Err = cas.Throttled(b.place, mendThrottled, nil)
				}
			}
		}
		return nil
	})
}

// Swap implements [cas.Backend]. DynamoDB has no batch of conditional writes, so each swap
// is a call, and the calls are made at the same time.
func (b *backend) Swap(ctx context.Context, swaps []cas.Swap) (time.Time, error) {
	if len(swaps) == 1 {
		b.put(ctx, &swaps[0])
		return time.Time{}, nil
	}
	var all sync.WaitGroup
	for i := range swaps {
		all.Go(func() { b.put(ctx, &swaps[i]) })
	}
	all.Wait()
	return time.Time{}, nil
}

// put makes one swap. DynamoDB returns the item that is there after a failed condition,
// which saves a read.
func (b *backend) put(ctx context.Context, s *cas.Swap) {
	err := b.do(ctx, b.putting(s))
	switch item, lost := lostTo(err); {
	case err == nil:
		s.Outcome, s.Written = cas.Done, s.Version
	case lost:
		loseTo(s, item)
	case nothingWritten(err):
		s.Outcome, s.Err = cas.Failed, err
	default:
		s.Outcome, s.Err = cas.Unknown, err
	}
}

// putting returns the call that makes a swap.
func (b *backend) putting(s *cas.Swap) func(context.Context) error {
	w := b.writeOf(s)
	return func(ctx context.Context) error {
		_, err := b.api.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: w.TableName, Item: w.Item, ConditionExpression: w.ConditionExpression,
			ExpressionAttributeNames: w.ExpressionAttributeNames, ExpressionAttributeValues: w.ExpressionAttributeValues,
			ReturnValuesOnConditionCheckFailure: w.ReturnValuesOnConditionCheckFailure,
		})
		return err
	}
}

// SwapAll implements [cas.Atomic].
func (b transacting) SwapAll(ctx context.Context, swaps []cas.Swap) (time.Time, error) {
	writes, size := make([]types.TransactWriteItem, len(swaps)), 0
	for i := range swaps {
		size += len(swaps[i].Key) + len(swaps[i].Value)
		writes[i].Put = b.writeOf(&swaps[i])
	}
	if size > maxTransaction {
		return time.Time{}, &stint.Error{
			Code: stint.CodeInvalid, Kind: "size", Problem: "the states of a group of " + strconv.Itoa(len(swaps)) + " keys exceed the 4 MB of a transaction of DynamoDB",
			Mend: "take fewer keys in one group, or give ?transactions=false in the store's URL",
		}
	}
	err := b.do(ctx, func(ctx context.Context) error {
		_, err := b.api.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: writes})
		return err
	})
	if err == nil {
		setAll(swaps, cas.Done)
		return time.Time{}, nil
	}
	if canceled, ok := errors.AsType[*types.TransactionCanceledException](err); ok && loseAll(swaps, canceled.CancellationReasons) {
		return time.Time{}, nil
	}
	if _, lost := lostTo(err); lost {
		setAll(swaps, cas.Lost)
		return time.Time{}, nil
	}
	return time.Time{}, err
}

// loseAll makes all swaps Lost if another write was first for one of them. It reports false
// if the transaction was canceled for another reason.
func loseAll(swaps []cas.Swap, reasons []types.CancellationReason) (lost bool) {
	for _, r := range reasons {
		lost = lost || r.Code != nil && conflicts[*r.Code]
	}
	for i := range swaps {
		if lost {
			var item attributes
			if i < len(reasons) {
				item = reasons[i].Item
			}
			loseTo(&swaps[i], item)
		}
	}
	return lost
}

// loseTo makes a swap Lost to the item that is there now. Without an item nothing is known:
// there may be none, or the server does not return it.
func loseTo(s *cas.Swap, item attributes) {
	s.Outcome = cas.Lost
	if len(item) == 0 {
		return
	}
	current, err := itemOf(item)
	s.Known, s.Current = err == nil, current
}

func setAll(swaps []cas.Swap, outcome cas.Outcome) {
	for i := range swaps {
		swaps[i].Outcome = outcome
	}
}

// Probe implements [cas.Prober]. Beside a read, it makes a write whose condition never
// holds: the answer shows that the table is there and that this process may write to it. An
// answer that asks for fewer calls comes from a server that works.
func (b *backend) Probe(ctx context.Context, _ string) error {
	never := cas.Swap{Key: "probe", Old: 1, Value: []byte{0}, Version: 1}
	for _, call := range []func(context.Context) error{b.getting(&cas.Load{Key: never.Key}), b.putting(&never)} {
		err := b.send(ctx, call)
		if _, lost := lostTo(err); err != nil && !lost && stint.CodeOf(err) != stint.CodeExhausted {
			return err
		}
	}
	return nil
}

// writeOf returns the write of a swap: on the condition that the version is still the one
// that was read.
func (b *backend) writeOf(s *cas.Swap) *types.Put {
	w := &types.Put{
		TableName: &b.table, Item: b.itemFor(s), ConditionExpression: aws.String("attribute_not_exists(#v)"),
		ExpressionAttributeNames:            map[string]string{"#v": versionAttribute}, // for words that are reserved
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if s.Old != 0 {
		w.ConditionExpression, w.ExpressionAttributeValues = aws.String("#v = :old"), attributes{":old": number(s.Old)}
	}
	return w
}

// itemFor returns the item that a swap writes. It expires a little later than the swap
// says.
func (b *backend) itemFor(s *cas.Swap) attributes {
	item := b.keyOf(s.Key)
	item[stateAttribute] = &types.AttributeValueMemberB{Value: s.Value}
	item[versionAttribute] = number(s.Version)
	item[expiresAttribute] = number(uint64(max(0, time.Now().Add(s.TTL+clockSlack).Unix())))
	return item
}

func (b *backend) keyOf(key string) attributes {
	return attributes{keyAttribute: &types.AttributeValueMemberB{Value: []byte(b.prefix + key)}}
}

func number(n uint64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatUint(n, 10)}
}

var (
	errGarbled = &stint.Error{
		Code: stint.CodeInternal, Kind: stint.KindGarbled, Problem: "the answer is not one of DynamoDB",
		Mend: "check the endpoint in the store's URL",
	}
	errForeign = &stint.Error{
		Code: stint.CodeInternal, Kind: stint.KindWrongType, Problem: "the item of a key is not one of the store",
		Mend: "find the program that writes to the table, and delete the item",
	}
)

// itemOf reads the attributes of an item. An item that another program has written fails
// the claims on its key alone.
func itemOf(a attributes) (cas.Item, error) {
	state, isBytes := a[stateAttribute].(*types.AttributeValueMemberB)
	version, isNumber := a[versionAttribute].(*types.AttributeValueMemberN)
	if !isBytes || !isNumber {
		return cas.Item{}, errForeign
	}
	n, err := strconv.ParseUint(version.Value, 10, 63)
	if err != nil || n == 0 {
		return cas.Item{}, errForeign
	}
	return cas.Item{Value: state.Value, Version: n}, nil
}

func bytesOf(a attributes, name string) string {
	if value, ok := a[name].(*types.AttributeValueMemberB); ok {
		return string(value.Value)
	}
	return ""
}

func newBackend(o *Options) (*backend, error) {
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	return &backend{c, o.Prefix + ":"}, nil
}

var (
	_ cas.Prober = (*backend)(nil)
	_ cas.Atomic = transacting{}
)
