package testnet_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// machine is one on the public network, without a router before it.
func (n internet) machine(name string, i int) {
	n.t.Helper()
	n.add(name)
	n.cable("pub", "to"+name, name, "eth0")
	n.in("pub", "ip", "link", "set", "to"+name, "master", "br0")
	n.in(name, "ip", "addr", "add", fmt.Sprintf("11.0.0.%d/24", i), "dev", "eth0")
}

// power cuts a machine off and ends its peer: what its kernel has to say about that, nobody hears.
func (n internet) power(r resident) {
	n.t.Helper()
	n.in("pub", "ip", "link", "set", "to"+r.Name, "down")
	if err := syscall.Kill(r.PID, syscall.SIGKILL); err != nil {
		n.t.Fatal(err)
	}
}

func TestTasksOfACoordinatorWithoutPowerRunElsewhere(t *testing.T) {
	long.Test(t)
	n := newInternet(t)
	names := []string{"a", "b", "c"}
	for i, name := range names {
		n.machine(name, 2+i)
	}
	cluster := map[string]resident{} // by id
	var args []string
	for _, name := range names {
		r := n.peer(name, append([]string{"--cpus", "2"}, args...)...)
		cluster[r.ID] = r
		if args == nil {
			k, err := r.Invite(timed(t), api.TicketRequest{Expires: 600, Uses: 2})
			if err != nil {
				t.Fatal(err)
			}
			args = []string{"--join", k.Ticket}
		}
	}
	var boss, witness resident
	for _, r := range cluster {
		eventually(t, "three machines vote and are seen", func() (bool, string) {
			st, err := r.Client.Status(timed(t))
			if err != nil || len(st.Voters) != 3 {
				return false, fmt.Sprintf("%v, %v", st.Voters, err)
			}
			for id := range cluster {
				if _, standing := r.path(t, id); standing != "ready" {
					return false, standing
				}
			}
			boss = cluster[st.Coordinator]
			return boss.ID != "", "no coordinator"
		})
	}
	for id, r := range cluster {
		if id != boss.ID {
			witness = r
		}
	}
	runsAfresh(t, n, boss, witness)
}

// runsAfresh has each of three peers run a task, and takes the power from one.
func runsAfresh(t *testing.T, n internet, dead, witness resident) {
	s, err := witness.Submit(timed(t), api.Submit{Job: napJob("withoutend", 3, time.Hour)})
	if err != nil || s.Held {
		t.Fatalf("%+v, %v", s, err)
	}
	var lost api.Task
	eventually(t, "the dead one to be runs a task", func() (bool, string) {
		ts, err := witness.Tasks(timed(t), s.ID)
		for _, x := range ts.Tasks {
			if x.Peer == dead.ID && x.State == taskstate.Running.String() {
				lost = x
			}
		}
		return lost.ID != "", fmt.Sprint(ts.Tasks, err)
	})
	began := time.Now()
	n.power(dead)
	eventually(t, "its task runs elsewhere", func() (bool, string) {
		ts, err := witness.Tasks(timed(t), s.ID)
		for _, x := range ts.Tasks {
			if x.Slot == lost.Slot && x.Attempt == 2 && x.Peer != dead.ID && x.State == taskstate.Running.String() {
				return true, ""
			}
		}
		return false, fmt.Sprint(ts.Tasks, err)
	})
	t.Logf("the task of a coordinator without power ran elsewhere after %v", time.Since(began).Round(10*time.Millisecond))
}
