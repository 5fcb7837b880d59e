package coordinator

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/membership/verdict"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// TestTheCoordinatorFollowsItsScenarios plays each file of testdata/coordinator: a command per
// line, below ---- what it led to.
func TestTheCoordinatorFollowsItsScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := playScenario(t, string(b))
			if err := golden.Check(file, got); err != nil {
				t.Error(err)
			}
		})
	}
}

// playScenario runs the commands of a file and returns the file with what happened.
func playScenario(t *testing.T, text string) string {
	r := newRig(t, CoreConfig{})
	r.take()
	var out strings.Builder
	for block := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n\n") {
		input, _, _ := strings.Cut(block, "\n----")
		for line := range strings.SplitSeq(input, "\n") {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				r.command(strings.Fields(line))
			}
		}
		out.WriteString(input)
		if got := r.take(); got != "" {
			out.WriteString("\n----\n" + strings.TrimRight(got, "\n"))
		}
		out.WriteString("\n\n")
		if !r.hold && r.over == "" {
			if err := r.check(); err != nil {
				t.Fatalf("after %q: %v", input, err)
			}
		}
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

// args are words of the form key=value or key.
func argsOf(words []string) map[string]string {
	m := map[string]string{}
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		m[k] = v
	}
	return m
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func duration(s string) time.Duration {
	d, _ := time.ParseDuration(s)
	return d
}

func (r *rig) command(w []string) {
	switch w[0] {
	case "member": // member PEER
		r.apply(ledger.Command{Admit: &ledger.Admit{Entry: admission.Entry{Cluster: "c", Peer: w[1], Roles: admission.AllRoles()}}},
			ledger.Command{Register: &ledger.Register{Peer: w[1], Incarnation: taskstate.Incarnation(w[1] + "1")}})
	case "admit": // admit PEER: not registered
		r.apply(ledger.Command{Admit: &ledger.Admit{Entry: admission.Entry{Cluster: "c", Peer: w[1], Roles: admission.AllRoles()}}})
	case "submit": // submit JOB [count=] [cpus=] [parallel=] [perpeer=] [each=a,b] [wait] [replace=]
		r.apply(ledger.Command{Submit: &ledger.Submit{Job: jobOf(w[1], argsOf(w[2:]))}})
	case "cancel":
		r.apply(ledger.Command{Cancel: &ledger.Cancel{Job: taskstate.JobID(w[1])}})
	case "remove":
		r.apply(ledger.Command{Remove: &ledger.Remove{Peer: w[1]}})
	case "depart":
		r.apply(ledger.Command{Depart: &ledger.Depart{Peer: w[1]}})
	case "avail": // avail PEER active|pause|drain [grace=]
		r.apply(ledger.Command{Avail: &ledger.SetAvailability{
			Peer: w[1], Availability: ledger.Availability(w[2]), Grace: duration(argsOf(w[3:])["grace"]).Milliseconds(),
		}})
	case "set": // set [beat=] [grace=]
		a := argsOf(w[1:])
		r.apply(ledger.Command{Set: &ledger.Set{Beat: duration(a["beat"]).Milliseconds(), Grace: duration(a["grace"]).Milliseconds()}})
	case "hold":
		r.hold = true
	case "decide":
		r.hold = false
		r.step()
	case "elect": // a new epoch, here
		r.epoch.Term++
		r.build(CoreConfig{})
	case "advance": // advance D [PEER…]: these beat meanwhile, which is not written down
		for end := r.now.Add(duration(w[1])); r.now.Before(end); {
			r.advance(min(time.Second, end.Sub(r.now)))
			for _, p := range w[2:] {
				before := r.take()
				r.step(SessionFrame{Conn: r.conns[p], Frame: session.Up{Beat: &session.Beat{}}})
				r.take()
				r.out.WriteString(before)
			}
		}
	case "verdict": // verdict PEER WORD
		v := map[string]verdict.Verdict{"alive": verdict.Alive, "suspect": verdict.Suspect, "dead": verdict.Dead}[w[2]]
		r.step(PeerVerdict{Peer: w[1], Verdict: v, Since: r.now})
	case "probed":
		r.step(PeerProbed{Peer: w[1], Failed: w[2] == "failed"})
	case "late": // what the ledger remembers of attempts given up
		j, _ := r.state.Job(taskstate.JobID(w[1]))
		for n := range j.PastSlots() {
			for _, p := range j.Past(n) {
				fmt.Fprintf(&r.out, "%s.%d.%d on %s given up: %s; late end: %+v\n", w[1], n, p.Attempt, p.Peer, p.Reason, p.Late)
			}
		}
	case "thaw":
		r.step(Thaw{})
	case "frozen":
		fmt.Fprintf(&r.out, "frozen: %q %v\n", r.core.Frozen(), r.core.Frozen().Gone)
	case "waiting":
		fmt.Fprintf(&r.out, "%s waits: %q\n", w[1], r.core.Waiting(taskstate.JobID(w[1])))
	case "peers":
		for _, p := range r.core.Peers() {
			if p.Peer != "founder" {
				fmt.Fprintf(&r.out, "%s %s: %d tasks, %d of %d cpus promised\n", p.Peer, p.Standing, p.Outstanding, p.Promised.MilliCPU/1000, p.Offer.Resources.MilliCPU/1000)
			}
		}
	case "job":
		r.showJob(taskstate.JobID(w[1]))
	default:
		r.sessionCommand(w)
	}
}

func (r *rig) showJob(id taskstate.JobID) {
	j, ok := r.state.Job(id)
	if !ok {
		fmt.Fprintf(&r.out, "%s is gone\n", id)
		return
	}
	c := j.Counts()
	fmt.Fprintf(&r.out, "%s %s: pending %d open %d complete %d failed %d rejected %d shutdown %d orphaned %d\n",
		id, j.State(), c.Pending, c.Open, c.Complete, c.Failed, c.Rejected, c.Shutdown, c.Orphaned)
}

// sessionCommand is what a worker sends.
func (r *rig) sessionCommand(w []string) {
	peer := w[1]
	conn := r.conns[peer]
	frame := func(f session.Up) { r.step(SessionFrame{Conn: conn, Frame: f}) }
	switch w[0] {
	case "hello", "open": // hello PEER [inc=] [cpus=] [acked=] [session=] [replaces=] [fence=G/T] [name=] [TASK=STATE…]; open leaves the reports out
		a := argsOf(w[2:])
		h := session.Hello{Incarnation: taskstate.Incarnation(peer + "1"), Session: a["session"], Acked: uint64(atoi(a["acked"]))}
		if a["inc"] != "" {
			h.Incarnation = taskstate.Incarnation(a["inc"])
		}
		h.Replaces = taskstate.Incarnation(a["replaces"])
		if a["fence"] != "" {
			h.Fence = taskstate.At(1, uint64(atoi(a["fence"])))
		}
		h.Offer.Name, h.Offer.Resources.MilliCPU = a["name"], 2000
		if a["cpus"] != "" {
			h.Offer.Resources.MilliCPU = int64(atoi(a["cpus"])) * 1000
		}
		r.inc[peer] = string(h.Incarnation)
		if w[0] == "open" {
			r.next++
			r.conns[peer], r.names[r.next] = r.next, peer
			r.step(SessionOpened{Conn: r.next, Peer: peer, Hello: h})
			return
		}
		r.hello(peer, h, r.statuses(w[2:])...)
	case "report": // report PEER TASK=STATE… [done]
		_, done := argsOf(w[2:])["done"]
		frame(session.Up{Report: &session.Report{Tasks: r.statuses(w[2:]), Done: done}})
	case "batch": // batch PEER NUMBER [author=] TASK=STATE[/REASON]…
		author := peer
		if a := argsOf(w[3:])["author"]; a != "" {
			author = a
		}
		r.step(SessionBatch{Conn: conn, Batch: taskstate.Batch{
			Author: author, Incarnation: taskstate.Incarnation(r.inc[peer]), Number: uint64(atoi(w[2])), Statuses: r.statuses(w[3:]),
		}})
	case "beat":
		frame(session.Up{Beat: &session.Beat{N: uint64(atoi(w[2]))}})
	case "resync":
		frame(session.Up{Resync: &session.Resync{}})
	case "goodbye":
		frame(session.Up{Goodbye: &session.Goodbye{}})
	case "offer":
		frame(session.Up{Offer: &session.Offer{Resources: taskstate.Resources{MilliCPU: int64(atoi(argsOf(w[2:])["cpus"])) * 1000}}})
	case "dropped":
		var ts []taskstate.TaskID
		for _, s := range w[2:] {
			t, _ := taskstate.ParseTaskID(s)
			ts = append(ts, t)
		}
		frame(session.Up{Dropped: &session.Dropped{Tasks: ts}})
	case "close":
		r.step(SessionClosed{Conn: conn})
	default:
		r.t.Fatalf("no such command: %v", w)
	}
}

func (r *rig) statuses(words []string) []taskstate.Status {
	var out []taskstate.Status
	for _, w := range words {
		if strings.Count(w, ".") == 2 && strings.Contains(w, "=") {
			out = append(out, r.parseStatus(w))
		}
	}
	return out
}

func jobOf(id string, a map[string]string) taskstate.Job {
	j := taskstate.Job{ID: taskstate.JobID(id), Type: taskstate.BatchJob, Count: max(1, atoi(a["count"])), Parallel: atoi(a["parallel"]), MaxPerPeer: atoi(a["perpeer"])}
	j.Run.Noop = &taskstate.Noop{}
	j.Resources.MilliCPU = int64(atoi(a["cpus"])) * 1000
	if a["each"] != "" {
		j.Each = strings.Split(a["each"], ",")
		j.Count = len(j.Each)
	}
	_, j.Unreachable.Wait = a["wait"]
	j.Unreachable.ReplaceAfter = int64(duration(a["replace"]) / time.Millisecond)
	j.Delay = int64(duration(a["delay"]) / time.Millisecond)
	return j
}
