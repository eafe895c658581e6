package dynamostore

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/stintdev/stint"
)

const (
	// pollInterval is the time between two questions of Migrate whether the table is ready.
	pollInterval = 250 * time.Millisecond
	// migrateCall bounds one call of Migrate. Such calls take longer than those of a check.
	migrateCall = 15 * time.Second
)

// Migrate makes the table of a store if it is missing, with on-demand billing, waits until
// it is ready, and has DynamoDB delete expired items. It needs the rights
// dynamodb:CreateTable, DescribeTable, DescribeTimeToLive and UpdateTimeToLive, which the
// store itself does not need. It changes nothing else of a table that exists.
func Migrate(ctx context.Context, o Options) error {
	if err := o.setDefaults(); err != nil {
		return err
	}
	c, err := newClient(&o)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.makeTable(ctx); err != nil {
		return err
	}
	err = c.expireItems(ctx)
	if answer, ok := errors.AsType[smithy.APIError](err); ok && (answer.ErrorCode() == "UnknownOperationException" || answer.ErrorCode() == "UnknownOperation") {
		o.Logger.Warn("the server of the table deletes no expired items: the table grows (delete them by the attribute "+expiresAttribute+")", "table", o)
		return nil
	}
	return err
}

// makeTable makes the table if it is missing, and waits until it is ready.
func (c *client) makeTable(ctx context.Context) error {
	for made := false; ; {
		t, err := c.describe(ctx)
		switch {
		case isMissing(err) && !made:
			if err = c.create(ctx); err != nil {
				return err
			}
			made = true
		case err != nil && !isMissing(err): // a new table may be missing for a while
			return err
		case err == nil && t.TableStatus == types.TableStatusActive:
			return c.checkLayout(t)
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			return &stint.Error{Code: stint.CodeTimeout, Kind: "table", Problem: c.place + " did not become ready in time", Mend: "run stint store migrate again", Err: ctx.Err()}
		}
	}
}

func (c *client) describe(ctx context.Context) (t *types.TableDescription, err error) {
	err = c.ask(ctx, func(ctx context.Context) error {
		out, err := c.api.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &c.table})
		if err == nil {
			t = out.Table
		}
		return err
	})
	if err == nil && t == nil {
		err = errGarbled
	}
	return t, err
}

func isMissing(err error) bool {
	_, missing := errors.AsType[*types.ResourceNotFoundException](err)
	return missing
}

// create makes the table. Another process may be faster.
func (c *client) create(ctx context.Context) error {
	err := c.ask(ctx, func(ctx context.Context) error {
		_, err := c.api.CreateTable(ctx, &dynamodb.CreateTableInput{
			TableName: &c.table, BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String(keyAttribute), AttributeType: types.ScalarAttributeTypeB}},
			KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String(keyAttribute), KeyType: types.KeyTypeHash}},
		})
		return err
	})
	if _, exists := errors.AsType[*types.ResourceInUseException](err); exists {
		return nil
	}
	return err
}

// checkLayout returns an error if the table is not one that create has made.
func (c *client) checkLayout(t *types.TableDescription) error {
	keys := t.KeySchema
	if len(keys) == 1 && aws.ToString(keys[0].AttributeName) == keyAttribute {
		for _, a := range t.AttributeDefinitions {
			if aws.ToString(a.AttributeName) == keyAttribute && a.AttributeType == types.ScalarAttributeTypeB {
				return nil
			}
		}
	}
	return &stint.Error{
		Code: stint.CodeInvalid, Kind: "schema", Problem: c.place + " has another layout than that of a store: its key is not the binary attribute " + keyAttribute,
		Mend: "give the name of a table that does not exist yet, or delete this one",
	}
}

// expireItems has DynamoDB delete items once they have expired.
func (c *client) expireItems(ctx context.Context) error {
	done, err := c.expiresItems(ctx)
	if done || err != nil {
		return err
	}
	err = c.ask(ctx, func(ctx context.Context) error {
		_, err := c.api.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
			TableName:               &c.table,
			TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(expiresAttribute), Enabled: aws.Bool(true)},
		})
		return err
	})
	if answer, ok := errors.AsType[smithy.APIError](err); !ok || answer.ErrorCode() != "ValidationException" {
		return err
	}
	// Another process was faster, or time to live was disabled a short while ago.
	if done, again := c.expiresItems(ctx); done || again != nil {
		return again
	}
	return &stint.Error{
		Code: stint.CodeUnavailable, Kind: "table", Problem: c.place + " does not let time to live be enabled now",
		Mend: "run stint store migrate again in an hour: DynamoDB changes time to live once an hour", Err: err,
	}
}

// expiresItems reports whether DynamoDB deletes expired items of the table, or soon will.
func (c *client) expiresItems(ctx context.Context) (bool, error) {
	var ttl *types.TimeToLiveDescription
	err := c.ask(ctx, func(ctx context.Context) error {
		out, err := c.api.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &c.table})
		if err == nil {
			ttl = out.TimeToLiveDescription
		}
		return err
	})
	if err != nil || ttl == nil || ttl.TimeToLiveStatus != types.TimeToLiveStatusEnabled && ttl.TimeToLiveStatus != types.TimeToLiveStatusEnabling {
		return false, err
	}
	if by := aws.ToString(ttl.AttributeName); by != expiresAttribute {
		return false, &stint.Error{
			Code: stint.CodeInvalid, Kind: "schema", Problem: c.place + " expires items by the attribute " + by,
			Mend: "disable time to live on the table, and run stint store migrate again",
		}
	}
	return true, nil
}

// ask is do with a bound of its own: the context of Migrate may have none.
func (c *client) ask(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, migrateCall)
	defer cancel()
	return c.do(ctx, f)
}
