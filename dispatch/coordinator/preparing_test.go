package coordinator

import (
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/session"
)

func TestTasksThatWaitForTheirInputsLeaveRoomForOthersAndNotForTheirOwnKind(t *testing.T) {
	r := newRig(t, CoreConfig{})
	got := r.commands("member a", "hello a cpus=2", "submit j count=20 cpus=1", "batch a 1 j.1.1=preparing j.2.1=preparing j.3.1=preparing j.4.1=preparing")
	before := strings.Count(got, "assign j")
	got = r.commands("submit k count=2 cpus=1")
	if !strings.Contains(got, "assign k") {
		t.Errorf("what could start waits behind what cannot:\n%s", got)
	}
	if n := strings.Count(got, "assign j"); before == 0 || n > 0 {
		t.Errorf("all of the job comes to wait in one place:\n%s", got)
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
	if got := r.commands("advance 5m a"); strings.Contains(got, "supersede j") {
		t.Errorf("what says that it waits for its inputs is given up:\n%s", got)
	}
	r.commands("batch a 2 j.1.1=ready j.2.1=ready j.3.1=ready j.4.1=ready", "batch a 3 j.1.1=running")
	if p := r.core.Peers()[0]; p.Promised.MilliCPU != 6000 || p.Running.MilliCPU != 1000 {
		t.Errorf("when they are ready, a carries %+v", p)
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
}

func TestATaskWhoseInputsArePlacedStaysHoweverLongThatTakes(t *testing.T) {
	r := newRig(t, CoreConfig{StartWithin: 30 * time.Second})
	r.commands("member a", "hello a cpus=2", "submit j count=1 cpus=1", "submit once count=1 cpus=1 wait", "member b", "hello b cpus=2")
	r.commands("batch a 1 j.1.1=ready once.1.1=ready", "batch a 2 j.1.1=starting once.1.1=starting")
	if got := r.commands("advance 5m a b"); strings.Contains(got, "supersede") || strings.Contains(got, "recall") {
		t.Errorf("what is being placed is given up:\n%s", got)
	}
	if p := r.core.Peers()[0]; p.PassedOver || p.Running.MilliCPU != 2000 {
		t.Errorf("its peer: %+v", p)
	}
	if got := r.commands("batch a 3 once.1.1=rejected/no-room"); !strings.Contains(got, "supersede once.1.1 (no-room) again") {
		t.Errorf("it had not run, and does not go elsewhere:\n%s", got)
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
}

func TestThePeersTellOfTheirMachinesLoadAsLongAsTheyHaveASession(t *testing.T) {
	r := newRig(t, CoreConfig{})
	r.commands("member a", "hello a cpus=4")
	beat := func(l *session.Load) *session.Load {
		r.step(SessionFrame{Conn: r.conns["a"], Frame: session.Up{Beat: &session.Beat{Load: l}}})
		return r.core.Peers()[0].Load
	}
	if l := beat(nil); l != nil {
		t.Errorf("not told, and %+v is known", l)
	}
	told := &session.Load{CPU: new(900), Memory: new(int64(3)), MemoryOf: 4}
	beat(told)
	if l := beat(nil); l != told {
		t.Errorf("told once, and %+v is known", l)
	}
	for _, wrong := range []*session.Load{{CPU: new(1001)}, {CPU: new(-1)}, {Memory: new(int64(1))}, {MemoryOf: -1}, {Average: new(-1)}} {
		if l := beat(wrong); l != told {
			t.Errorf("%+v is taken over", l)
		}
	}
	r.step(SessionClosed{Conn: r.conns["a"]})
	if l := r.core.Peers()[0].Load; l != nil {
		t.Errorf("after its session: %+v", l)
	}
}

func TestAPeerWithoutRoomForAJobsInputsIsAvoidedForItAndNoFailureIsCounted(t *testing.T) {
	r := newRig(t, CoreConfig{})
	got := r.commands("member a", "hello a cpus=4", "submit j count=1 cpus=1", "member b", "hello b cpus=2", "batch a 1 j.1.1=rejected/no-room")
	if !strings.Contains(got, "supersede j.1.1 (no-room) again") || !strings.Contains(got, "assign j[1.2] to b") {
		t.Errorf("it does not go elsewhere:\n%s", got)
	}
	got = r.commands("submit k count=2 cpus=1")
	if !strings.Contains(got, "to a") {
		t.Errorf("other jobs do not go there:\n%s", got)
	}
	if p := r.core.Peers(); !strings.HasPrefix(p[0].NoRoom, "job j: ") || p[1].NoRoom != "" {
		t.Errorf("who is said to have no room: %+v", p)
	}
	r.commands("advance 301s a b")
	if p := r.core.Peers(); p[0].NoRoom != "" {
		t.Errorf("it is still said: %+v", p)
	}
}
