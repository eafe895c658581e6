// Package dynamostore implements [stint.Store] on Amazon DynamoDB. All processes that use
// the same table and the same prefix share one set of limits.
//
// Use [New] when several processes on AWS limit the same callers and no server of Redis or
// PostgreSQL is wanted. Package [github.com/stintdev/stint/dynamostore/dynamoopen] opens it
// with a guard, which decides while DynamoDB fails, and with leases. Without a guard a failure
// is an error of the call.
//
// It promises:
//
//   - Decisions equal those of package stint, to the microsecond. DynamoDB has no clock that
//     decisions could use, so the time is that of the process. Keep the clocks of the
//     processes in step: the heartbeats compare them.
//   - A check that is charged is a conditional write, and a consistent read before it unless
//     this process wrote the item last. A denial and a peek are one read.
//   - A group of claims is charged as one, also across identities: a transaction writes all
//     of its items or none. With Options.NoTransactions, which costs half as much, such a
//     group is written item by item.
//   - Checks on one key that wait at the same time share a read and a write. Each process has
//     one write of a key in flight.
//   - A call that may have written is never repeated unless it is certain that it charges
//     once. Its error has CodeTimeout or CodeCanceled.
//   - DynamoDB serves one key from one partition, which makes at most 1,000 writes a second.
//     Limits that many processes charge at once must be leased. What DynamoDB refuses because
//     of its ceilings is repeated a little later; a guard does not count it as a failure.
//   - [New] needs no reachable server, and the store recovers by itself.
//   - Credentials come from the environment, as those of all programs that use the SDK of
//     AWS do: variables, files, a role of the machine or the container.
//
// [Migrate] or stint store migrate makes the table. The store itself needs the rights
// dynamodb:GetItem, dynamodb:BatchGetItem and dynamodb:PutItem on it.
//
// The way through the package: store.go and internal/cas take claims, backend.go reads and
// writes items, client.go sends the calls, errors.go explains what DynamoDB answers, and
// migrate.go makes the table.
package dynamostore
