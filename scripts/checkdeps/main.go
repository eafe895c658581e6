// Checkdeps checks the dependencies of every module of this repository. It fails
// if a dependency has a known vulnerability that our code can reach, or if a newer
// patch release of a dependency has been out for more than 30 days.
//
//	go run ./scripts/checkdeps [-govulncheck PROGRAM]
//
// It needs the module proxy, and fails without a network. Some networks reach the
// module proxy but not the database of vulnerabilities: checkdeps then skips that
// part and says so.
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

// Bounds of a run. A part that takes longer fails.
const (
	releasesTime        = 3 * time.Minute // time for the releases of all modules
	vulnerabilitiesTime = 10 * time.Minute
	databaseTime        = 15 * time.Second // time for the answer of the database
)

func main() {
	govulncheck := flag.String("govulncheck", "bin/govulncheck", "the govulncheck `program`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := check(ctx, ".", *govulncheck, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "check-deps:", err)
		os.Exit(1)
	}
}

// check checks every module below a folder. It returns the findings of both parts.
func check(ctx context.Context, root, govulncheck string, out io.Writer) error {
	modules, err := modulesBelow(root)
	if err != nil {
		return err
	}
	return errors.Join(checkReleases(ctx, modules, out), checkVulnerabilities(ctx, modules, govulncheck, out))
}
