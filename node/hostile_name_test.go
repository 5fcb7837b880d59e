package node

import (
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/api"
)

// Attack (m): a peer that may only run tasks takes another's name, and says of itself the label
// that an admin laid on the other one. It gets what asks for these alone. What is pinned to the
// other one's id it does not get, also while that one takes nothing, and the job's story says why.
func TestAStolenNameGetsNoJobThatIsPinnedToAnId(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	one, two := all[0], all[1]
	if _, err := one.SetLabels(timed(t), two.self, api.Labels{Set: map[string]string{"vault": "yes"}}); err != nil {
		t.Fatal(err)
	}
	guests := one.ticket(api.TicketRequest{Expires: 600, Roles: []string{"worker"}}).Ticket
	thief := alive(t, Config{Name: "two", Join: guests, Labels: map[string]string{"vault": "yes"}})
	thief.rules(t, "- {from: [key:"+one.self+"], run: any}\n")
	takes := func(a string) {
		t.Helper()
		if _, err := one.SetAvailability(timed(t), two.self, api.Availability{Availability: a}); err != nil {
			t.Fatal(err)
		}
	}
	takes(api.Paused)
	job := func(name string, constraints ...string) string {
		j := noopJob(name, 3, time.Millisecond)
		j.Constraints = constraints
		return one.submit(j)
	}
	on := func(id string, want *living) {
		t.Helper()
		row, tasks := one.outcome(id)
		if row.State != "complete" || len(tasks) != 3 {
			t.Errorf("%+v", row)
		}
		for _, x := range tasks {
			if x.Peer != want.self {
				t.Errorf("task %s ran on %s, want %s", x.ID, x.Peer, want.self)
			}
		}
	}
	pinned := job("pinned", "peer.id == "+two.self)
	both := job("pinned-and-named", "peer.name == two", "peer.label.vault == yes", "peer.id == "+two.self)
	// Handed in last, and done while the others wait: the thief takes all it is given.
	on(job("named", "peer.name == two", "peer.label.vault == yes"), thief)
	for id, others := range map[string]string{pinned: "2 peers", both: "1 peer"} { // the thief meets the rest
		eventually(t, "it is said why it waits", func() (bool, string) {
			story, err := one.Backend().Explain(t.Context(), id)
			if err != nil {
				return false, err.Error()
			}
			text := ""
			for _, f := range story.Explain {
				text += f.Text + "\n"
			}
			return strings.Contains(text, "constraint peer.id == two not met by "+others), text
		})
	}
	takes(api.Active)
	on(pinned, two)
	on(both, two)
}
