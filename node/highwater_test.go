package node

import (
	"errors"
	"os"
	"testing"

	"covey/dispatch/worker/journal"
	"covey/node/api"
	"covey/node/highwater"
)

// A copy of the journal is put back that was made while the peer ran, and everybody is down: the
// start that used it is the right one, and nobody has in memory what came after it.
func TestAJournalPutBackWhileAllWereDownIsToldByWhatIsRememberedOnDisk(t *testing.T) {
	t.Parallel()
	for name, memory := range map[string]string{"the peer's own": "two", "the coordinator's": "one"} {
		t.Run(name, func(t *testing.T) {
			all := clusterOf(t, "one", "two")
			on := func(l *living) {
				j := noopJob("there", 3, 0)
				j.Constraints = []string{"peer.name == two"}
				if row, _ := l.outcome(l.submit(j)); row.State != "complete" {
					t.Fatalf("%+v", row)
				}
			}
			on(all[0])
			two := all[1]
			journal := two.folder.path(journal.FileName)
			eventually(t, "both remember that", func() (bool, string) {
				for _, l := range all {
					if l.highwater.Highest(two.self, two.worker.Incarnation()) == 0 {
						return false, l.cfg.Name
					}
				}
				return true, ""
			})
			old, err := os.ReadFile(journal)
			if err != nil {
				t.Fatal(err)
			}
			inc, before := two.worker.Incarnation(), two.highwater.Highest(two.self, two.worker.Incarnation())
			on(all[0])
			eventually(t, "both remember more than the copy has", func() (bool, string) {
				for _, l := range all {
					if l.highwater.Highest(two.self, inc) <= before {
						return false, l.cfg.Name
					}
				}
				return true, ""
			})
			for _, l := range all {
				l.crash()
				if l.cfg.Name != memory {
					err = errors.Join(err, os.Remove(l.folder.path(highwater.Name)))
				}
			}
			if err := errors.Join(err, os.WriteFile(journal, old, 0o600)); err != nil {
				t.Fatal(err)
			}
			back := make([]*living, len(all))
			for i, l := range all {
				back[i] = l.back()
			}
			eventually(t, "the peer says that its journal is lost", func() (bool, string) {
				return has(&back[1].troubles, two.self, api.TroubleJournalLost), ""
			})
			if back[1].worker.Incarnation() == inc {
				t.Error("it goes on under the numbers it has used")
			}
			on(back[0])
		})
	}
}
