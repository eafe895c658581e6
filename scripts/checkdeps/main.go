// Checkdeps looks at the dependencies of every module of this repository. It
// fails when one has a known vulnerability that our code can reach, and when a
// newer patch release of one is older than 30 days.
//
//	go run ./scripts/checkdeps [-govulncheck PROGRAM]
//
// Without a network it fails, for then it knows nothing of releases. The
// database of vulnerabilities is at another address than the releases, which
// some networks do not reach: then that part is skipped, and the output says so.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

// Bounds of a run. What takes longer is a failure.
const (
	releasesTime        = 3 * time.Minute // of all modules
	vulnerabilitiesTime = 10 * time.Minute
	databaseTime        = 15 * time.Second // until the database answers
)

func main() {
	govulncheck := flag.String("govulncheck", "bin/govulncheck", "the `program` that looks for vulnerabilities")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := check(ctx, ".", *govulncheck, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "check-deps:", err)
		os.Exit(1)
	}
}

// check looks at every module below a folder. What one part finds does not hide
// what the other does.
func check(ctx context.Context, root, govulncheck string, out io.Writer) error {
	modules, err := modulesBelow(root)
	if err != nil {
		return err
	}
	return errors.Join(checkReleases(ctx, modules, out), checkVulnerabilities(ctx, modules, govulncheck, out))
}
