package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/internal/secret"
	"github.com/stintdev/stint/postgresstore"
)

func newStoreCommand() *cobra.Command {
	return newGroupCommand("store", "Prepare a shared store",
		"  stint store migrate 'postgres://owner@10.0.0.7/limits?durable=true'\n  stint store repair redis-quorum://10.0.0.1,10.0.0.2,10.0.0.3",
		newMigrateCommand(), newQuorumInitCommand(), newQuorumRepairCommand(), newQuorumReplaceCommand())
}

// migrateTime bounds a migration. A table that changes between logged and unlogged is
// rewritten.
const migrateTime = 10 * time.Minute

// migrateFlags are those of store migrate.
type migrateFlags struct{ passwordFile string }

func newMigrateCommand() *cobra.Command {
	f := &migrateFlags{}
	c := &cobra.Command{
		Use:   "migrate URL",
		Short: "Make the tables of a store in a database, and bring them up to date",
		Long: `Make the tables of a store in a database, and bring them up to date. URL is that
of stint serve --store.

In PostgreSQL a server does so by itself when it starts, if its user may. Run this
command as a user with more rights, and grant the server's user the rights to read
and write:

  GRANT SELECT, INSERT, UPDATE, DELETE ON stint_items, stint_nodes TO stint;

With ?durable=true the counts survive a crash of the database; without it they do
not, and checks are faster. A table that exists is changed to that, and is locked
meanwhile.

In DynamoDB only this command makes the table, with on-demand billing and a time to
live of its items. It needs the rights dynamodb:CreateTable, DescribeTable,
DescribeTimeToLive and UpdateTimeToLive; a server needs dynamodb:GetItem,
BatchGetItem and PutItem.`,
		Example: "  stint store migrate postgres://owner@10.0.0.7/limits\n  stint store migrate --store-password-file owner.secret 'postgres://owner@10.0.0.7/limits?durable=true&schema=stint'\n  stint store migrate 'dynamodb://limits?region=eu-west-1'",
		Args:    arguments(1, 1, "the URL of one store", "postgres://owner@10.0.0.7/limits"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), migrateTime)
			defer cancel()
			done, err := f.migrate(ctx, args[0], c.ErrOrStderr())
			if err == nil {
				_, err = fmt.Fprintln(c.OutOrStdout(), done)
			}
			return err
		},
	}
	c.Flags().StringVar(&f.passwordFile, "store-password-file", passwordFileOfEnvironment(), "`FILE` with the password of the store")
	return c
}

// migrate makes the tables of a store, and returns a line that says so.
func (f *migrateFlags) migrate(ctx context.Context, url string, logs io.Writer) (done string, err error) {
	if err := checkOneStore(url); err != nil {
		return "", err
	}
	if isDynamo(url) {
		return migrateDynamo(ctx, url, f.passwordFile, slog.New(slog.NewTextHandler(logs, nil)))
	}
	password, err := openSecret("store-password-file", "password", f.passwordFile)
	if err != nil {
		return "", err
	}
	if !isPostgres(url) {
		return "", usagef("store migrate: %s is a store without tables, or none of this version (give postgres:// or dynamodb://)", schemeOf(url))
	}
	return migratePostgres(ctx, url, password)
}

func migratePostgres(ctx context.Context, url string, password *secret.Text) (done string, err error) {
	o, err := postgresOptions(url, password)
	if err != nil {
		return "", err
	}
	if err := postgresstore.Migrate(ctx, o); err != nil {
		return "", fmt.Errorf("store migrate: %w", err)
	}
	kind := "unlogged: the counts do not survive a crash of the database"
	if o.Durable {
		kind = "logged: the counts survive a crash of the database"
	}
	return fmt.Sprintf("the tables of %s are up to date (%s)", o, kind), nil
}
