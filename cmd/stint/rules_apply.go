package main

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stintdev/stint/cmd/stint/internal/adminclient"
	"github.com/stintdev/stint/rule"
)

func newApplyCommand() *cobra.Command {
	f := &changeFlags{}
	c := &cobra.Command{
		Use:   "apply FILE",
		Short: "Publish a rule file, or a folder of them, as the rules of all nodes",
		Long: `Publish a rule file, or a folder of them, as the whole set of rules, also as the
first version; - is standard input. It is in force on the node that is asked when the command ends,
and on every other within seconds.` + dangerHelp,
		Example: `  stint rules apply rules.yaml
  stint rules apply --comment "more for free users" --base 12 rules.yaml
  stint rules apply --yes --json rules/
  STINT_TOKEN=secret stint rules apply --server https://limits.example.com:6070 rules.yaml
  stint rules apply --source redis://10.0.0.5:6379/0 rules.yaml`,
		Args: exactly("a file", "rules.yaml"),
		RunE: f.running(func(ctx context.Context, args []string) error {
			files, err := readRules(args[0], f.in)
			if err != nil {
				return err
			}
			body, err := setBody(files, args[0])
			if err != nil {
				return err
			}
			return f.publish(ctx, adminclient.Request{Method: http.MethodPut, Path: "/rules", Body: body}, files)
		}),
	}
	f.define(c)
	return c
}

func newRollbackCommand() *cobra.Command {
	f := &changeFlags{}
	c := &cobra.Command{
		Use:   "rollback VERSION",
		Short: "Publish an old version again, as a new one",
		Long: `Publish what was in force as VERSION again, as a new version. stint rules history
lists them; 0 is the built-in rules.` + dangerHelp,
		Example: "  stint rules rollback 11\n  stint rules rollback --yes --comment \"12 was wrong\" 11",
		Args:    exactly("a version", "11"),
		RunE: f.running(func(ctx context.Context, args []string) error {
			n, err := versionOf(args[0])
			if err != nil {
				return err
			}
			body := []byte(`{"version":` + strconv.FormatUint(n, 10) + `}`)
			return f.publish(ctx, adminclient.Request{Method: http.MethodPost, Path: "/rules/rollback", Body: body}, nil)
		}),
	}
	f.define(c)
	return c
}

// setBody is the body of a request about rules that have no mistake. One file
// takes the name of the only one that there was.
func setBody(files []rule.File, path string) ([]byte, error) {
	if _, err := rule.Parse(files...); err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, usagef("%s: holds no rule file (to have no rules, write one that says rules: [])", path)
	}
	if len(files) == 1 {
		return files[0].Data, nil
	}
	var body struct {
		Files []adminclient.File `json:"files"`
	}
	for _, f := range files {
		body.Files = append(body.Files, adminclient.File{Name: filepath.Base(f.Name), Text: string(f.Data)})
	}
	return json.Marshal(body)
}

func versionOf(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, usagef("%.40q is not a version (give a number that stint rules history lists)", text)
	}
	return n, nil
}
