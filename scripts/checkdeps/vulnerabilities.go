package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// publicDatabase is the database of govulncheck unless GOVULNDB names another.
const publicDatabase = "https://vuln.go.dev"

// checkVulnerabilities runs govulncheck in each module. It includes the tests,
// because they run on the machines of contributors. It skips the check if the
// database cannot be reached.
func checkVulnerabilities(ctx context.Context, modules []string, govulncheck string, out io.Writer) error {
	database := os.Getenv("GOVULNDB")
	if database == "" {
		database = publicDatabase
	}
	if err := reach(ctx, database); err != nil {
		fmt.Fprintf(out, "SKIPPED: no check for known vulnerabilities, because their database cannot be reached: %v\n", err)
		return nil
	}
	program, err := filepath.Abs(govulncheck)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, vulnerabilitiesTime)
	defer cancel()
	var found []error
	for _, folder := range modules {
		command := exec.CommandContext(ctx, program, "-test", "-db", database, "./...") //nolint:gosec // the caller chooses the program and the database
		command.Dir, command.Stdout, command.Stderr, command.WaitDelay = folder, out, out, time.Second
		fmt.Fprintf(out, "%s:\n", filepath.Join(folder, "go.mod"))
		if err := command.Run(); err != nil {
			found = append(found, fmt.Errorf("%s: govulncheck, see above: %w", filepath.Join(folder, "go.mod"), errors.Join(err, ctx.Err())))
		}
	}
	return errors.Join(found...)
}

// reach fetches the small index file of a database. It leaves a database in the
// file system to govulncheck.
func reach(ctx context.Context, database string) error {
	if strings.HasPrefix(database, "file:") {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(database, "/")+"/index/db.json", http.NoBody) //nolint:gosec // the caller chooses the database
	if err != nil {
		return fmt.Errorf("GOVULNDB: %w", err)
	}
	answer, err := http.DefaultClient.Do(request) //nolint:gosec // the caller chooses the database
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", request.URL, answer.Status)
	}
	return nil
}
