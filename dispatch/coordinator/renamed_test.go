package coordinator

import (
	"strings"
	"testing"
	"time"
)

func TestAPeerThatComesBackUnderAnotherNameIsRegisteredByIt(t *testing.T) {
	r := newRig(t, CoreConfig{})
	if got := r.commands("admit a", "hello a name=old"); strings.Count(got, "register a") != 1 {
		t.Fatalf("at first:\n%s", got)
	}
	if got := r.commands("close a", "hello a name=old"); strings.Contains(got, "register a") {
		t.Errorf("it was known by that name:\n%s", got)
	}
	if got := r.commands("close a", "hello a name=new"); strings.Count(got, "register a") != 1 {
		t.Errorf("it goes by another name:\n%s", got)
	}
	if got := r.commands("elect", "hello a name=new"); strings.Contains(got, "register a") {
		t.Errorf("the next coordinator knows it:\n%s", got)
	}
}

func TestHowLongAPeerHasBeenAwayIsTold(t *testing.T) {
	r := newRig(t, CoreConfig{})
	r.commands("member a", "hello a", "close a", "verdict a dead", "advance 5s")
	if p := r.core.Peers()[0]; p.Away < 5*time.Second || p.Away > 6*time.Second {
		t.Errorf("away for %s: %+v", p.Away, p)
	}
	r.commands("verdict a alive", "hello a")
	if p := r.core.Peers()[0]; p.Away != 0 {
		t.Errorf("it is back, and away for %s", p.Away)
	}
}
