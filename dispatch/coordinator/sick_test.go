package coordinator

import (
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/taskstate"
)

// trouble lets a peer say that it takes no tasks, or, with "", that it does again.
func (r *rig) trouble(peer, what string) {
	o := r.core.peers.of(peer).offer
	o.Trouble = what
	o.Resources.MilliCPU = 1000
	if what != "" {
		o.Resources.MilliCPU = 0
	}
	r.step(SessionFrame{Conn: r.conns[peer], Frame: session.Up{Offer: &o}})
}

func TestWhatAPeerInTroubleHasNotTakenOnGoesElsewhereAndWhatItRunsDoesNot(t *testing.T) {
	r := newRig(t, CoreConfig{})
	for _, line := range []string{
		"member a", "hello a cpus=1", "submit j count=2 cpus=1", // both are a's: one runs, of the other nothing was heard
		"batch a 1 j.1.1=running", "member b",
	} {
		r.command(strings.Fields(line))
	}
	r.trouble("a", "its disk is full")
	r.hello("b", session.Hello{Incarnation: "b1", Offer: session.Offer{Resources: taskstate.Resources{MilliCPU: 2000, Memory: 1 << 30}}})
	r.take()
	r.command(strings.Fields("advance 9s a b"))
	if got := r.take(); strings.Contains(got, "supersede") {
		t.Fatalf("given up too soon:\n%s", got)
	}
	r.command(strings.Fields("advance 2s a b"))
	if got := r.take(); !strings.Contains(got, "j[2.2] to b") {
		t.Errorf("what waits is not given to another:\n%s", got)
	}
	r.command(strings.Fields("advance 10m a b"))
	if got := r.take(); strings.Contains(got, "j[1.2]") {
		t.Errorf("what runs was given up:\n%s", got)
	}
}

func TestATroubleThatPassesCostsNoAttempt(t *testing.T) {
	r := newRig(t, CoreConfig{})
	for _, line := range []string{"member a", "member b", "hello a cpus=1", "submit j count=2 cpus=1", "batch a 1 j.1.1=running"} {
		r.command(strings.Fields(line))
	}
	for range 10 { // each time shorter than the patience
		r.trouble("a", "its disk is full")
		r.command(strings.Fields("advance 9s a"))
		r.trouble("a", "")
		r.command(strings.Fields("advance 1s a"))
	}
	if got := r.take(); strings.Contains(got, "supersede") {
		t.Errorf("given up:\n%s", got)
	}
}

func TestAPeerInTroubleGetsNoTasksNotEvenThoseThatTakeNothing(t *testing.T) {
	r := newRig(t, CoreConfig{})
	for _, line := range []string{"member a", "hello a cpus=1"} {
		r.command(strings.Fields(line))
	}
	r.trouble("a", "its disk is full")
	r.take()
	for _, line := range []string{"submit j count=1 cpus=0", "submit k count=1 cpus=1"} {
		r.command(strings.Fields(line))
	}
	r.command(strings.Fields("advance 1m a"))
	if got := r.take(); strings.Contains(got, "assign") {
		t.Errorf("it was given something:\n%s", got)
	}
	if why := r.core.Waiting("j"); !strings.Contains(why, "not available") {
		t.Errorf("the job waits because %q", why)
	}
	r.trouble("a", "")
	if got := r.take(); !strings.Contains(got, "j[1.1] to a") || !strings.Contains(got, "k[1.1] to a") {
		t.Errorf("well again, it gets nothing:\n%s", got)
	}
}

// A worker's disk that takes nothing any more: what it has accepted and not begun is asked for, and
// given back at its word.
func TestWhatAPeerInTroubleHasAcceptedAndNotBegunIsAskedFor(t *testing.T) {
	for _, job := range []string{"submit j count=3 cpus=1", "submit j count=3 cpus=1 wait"} {
		r := newRig(t, CoreConfig{})
		for _, line := range []string{
			"member a", "hello a cpus=2", job, "batch a 1 j.1.1=running j.2.1=running j.3.1=accepted", "member b",
		} {
			r.command(strings.Fields(line))
		}
		r.trouble("a", "its disk is full")
		r.hello("b", session.Hello{Incarnation: "b1", Offer: session.Offer{Resources: taskstate.Resources{MilliCPU: 2000, Memory: 1 << 30}}})
		r.command(strings.Fields("report b done"))
		r.take()
		r.command(strings.Fields("advance 11s a b"))
		if got := r.take(); !strings.Contains(got, "recall j.3.1") || strings.Contains(got, "supersede") {
			t.Fatalf("%s: what waits there is not asked for, and nothing else:\n%s", job, got)
		}
		r.command(strings.Fields("advance 5m a b"))
		if got := r.take(); strings.Contains(got, "recall") {
			t.Errorf("%s: asked again in one session:\n%s", job, got)
		}
		r.step(SessionFrame{Conn: r.conns["a"], Frame: session.Up{Dropped: &session.Dropped{Tasks: []taskstate.TaskID{taskstate.Task("j", 3, 1)}}}})
		if got := r.take(); !strings.Contains(got, "assign j[3.2] to b") || !strings.Contains(got, "stuck") {
			t.Errorf("%s: what was given back does not go elsewhere, or not for the right reason:\n%s", job, got)
		}
	}
}

// Between the worker's word and the decision nobody gives the task back to it: it may have ended,
// and come back without a memory of its word.
func TestACompleteSetDoesNotListWhatIsJustBeingGivenBack(t *testing.T) {
	r := newRig(t, CoreConfig{})
	for _, line := range []string{"member a", "hello a cpus=1", "submit j count=2 cpus=1", "batch a 1 j.1.1=running j.2.1=accepted"} {
		r.command(strings.Fields(line))
	}
	r.trouble("a", "its disk is full")
	r.hold = true
	r.step(SessionFrame{Conn: r.conns["a"], Frame: session.Up{Dropped: &session.Dropped{Tasks: []taskstate.TaskID{taskstate.Task("j", 2, 1)}}}})
	r.take()
	for _, line := range []string{"open a cpus=1", "report a j.1.1=running j.2.1=accepted done"} {
		r.command(strings.Fields(line))
	}
	got := r.take()
	if !strings.Contains(got, "complete") || !strings.Contains(got, "j[1.1]") || strings.Contains(got, "j[2.1]") {
		t.Errorf("the Complete set should list slot 1 and not slot 2:\n%s", got)
	}
}
