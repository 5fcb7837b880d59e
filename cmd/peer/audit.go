package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/trust/audit"
)

// auditAnswer is what `peer audit -o json` prints.
type auditAnswer struct {
	Audit   []audit.Record `json:"audit"`
	Verdict audit.Findings `json:"verdict"`
	AsOf    time.Time      `json:"as_of"`
}

func auditCommand(c *cli) *cobra.Command {
	var (
		from   string
		verify bool
	)
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show what this peer did in others' names: orders taken and refused, and by which rule",
		Long: `Show the audit log in this peer's data folder, also while the peer is down: orders that were taken
or refused and by which rule, tasks that were told to end because their key is not let in any more,
changes of the policy, secrets that were opened, and calls of the
local API that changed something or were refused, with the user who made them.

Each record has the hash of the one before. --verify checks that, says where a record was changed
or removed, and exits with 1 then. Nothing follows the newest record: that the end was cut off
shows only if you noted its number and hash elsewhere, which --verify prints. The newest 40 MiB are
kept.`,
		Example: "  peer audit --since 24h\n  peer audit --verify\n  peer audit -o jsonl",
		Args:    exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var after time.Time
			if from != "" {
				var err error
				if after, err = since(from, time.Now()); err != nil {
					return err
				}
			}
			a := auditAnswer{Audit: []audit.Record{}, AsOf: time.Now().UTC()}
			var err error
			a.Verdict, err = audit.Read(filepath.Join(c.data, audit.FileName), func(r audit.Record) error {
				if !verify && !r.Time.Before(after) {
					a.Audit = append(a.Audit, r)
				}
				return nil
			})
			switch {
			case errors.Is(err, fs.ErrPermission):
				return api.Errorf(api.Refused, "the audit log cannot be read here: %v; type this as the user that runs the peer, outside of tasks", err)
			case err != nil:
				return api.Errorf(api.Failed, "the audit log cannot be read: %v", err)
			case a.Verdict.Records == 0 && a.Verdict.Broken == "":
				return noAudit(c.data)
			}
			err = emit(c, nil, a, a.Audit, func(w io.Writer) {
				if !verify {
					auditTable(w, a.Audit)
				}
			})
			if verify && err == nil {
				return c.verified(a.Verdict)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&from, "since", "", "only what happened in the last `DURATION`, as in 24h, or since a time: 15:04, '2006-01-02 15:04'")
	cmd.Flags().BoolVar(&verify, "verify", false, "check that nothing was changed or removed, and list nothing")
	return cmd
}

// noAudit says why there is nothing in the log: a peer that runs writes at its start.
func noAudit(data string) error {
	if _, err := os.Stat(filepath.Join(data, audit.FileName)); err == nil {
		return api.Errorf(api.Failed, "the audit log in %s is empty, and a peer's never is: what was in it was removed", data)
	}
	return api.Errorf(api.NotFound, "no audit log in %s: no peer of this version was started there, or it was removed", data)
}

// verified says what checking the log showed.
func (c *cli) verified(v audit.Findings) error {
	if v.Broken != "" {
		return api.Errorf(api.Failed, "the audit log is not whole: %s", v.Broken)
	}
	fmt.Fprintf(c.Err, "records %d to %d follow from each other; newest hash %s\n", v.First, v.Last, v.Hash)
	return nil
}

func auditTable(w io.Writer, all []audit.Record) {
	t := table("TIME", "WHAT", "BY", "ABOUT", "DETAIL").fit(w)
	for _, r := range all {
		by := shortID(r.By)
		if r.UID != nil {
			by = strings.TrimSpace(fmt.Sprintf("uid %d %s", *r.UID, by))
		}
		about, detail := r.Task, r.Detail
		switch {
		case r.Call != "":
			about, detail = strings.TrimSpace(r.Call+" "+r.Task), strings.TrimSuffix(r.Outcome+": "+detail, ": ")
		case about == "":
			about = r.Job
		}
		if r.Rule != "" {
			detail = strings.TrimSuffix("rule "+r.Rule+": "+detail, ": ")
		}
		t.add(r.Time.Local().Format(withZone), r.What, by, about, detail)
	}
	t.write(w)
}
