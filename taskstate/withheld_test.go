package taskstate_test

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// whole is a job of which every part that can be withheld says something, with words nobody else
// uses.
func whole() *taskstate.Job {
	j := web()
	j.Count, j.Type, j.Each = 3, taskstate.BatchJob, []string{"covert-1", "covert-2", "covert-3"}
	j.Run.Process = &taskstate.Process{Command: []string{"covert-command"}, Env: map[string]string{"COVERT": "covert-env"}, Script: []byte("covert-script")}
	j.Inputs = []taskstate.Input{{Name: "covert-input", From: "aaaaaaaaaa"}, {Name: "covert-other", Ref: "b3:00"}}
	j.Outputs = &taskstate.Outputs{Globs: []string{"covert-output"}, Keep: 3}
	j.Secrets = &taskstate.Secrets{Names: []string{"COVERT_NAME"}, By: "wren", Digest: []byte("covert-digest"), Sealed: []byte("covert-sealed")}
	j.Submitter = "wren"
	return j
}

func ordered(t *testing.T, j *taskstate.Job, follows *taskstate.Order) *taskstate.Job {
	t.Helper()
	at := int64(1)
	if follows != nil {
		at = follows.At + 1
	}
	if err := taskstate.SignOrder(j, "cluster", "wren", at, follows.Digest(), sealOf("wren")); err != nil {
		t.Fatal(err)
	}
	return j
}

func bare(j *taskstate.Job) *taskstate.Job {
	b := j.Bare()
	return &b
}

func TestABareJobSaysNothingOfWhatIsRunAndItsOrderStillHolds(t *testing.T) {
	j := ordered(t, whole(), nil)
	b := bare(j)
	text, err := wire.Marshal(b)
	if err != nil || bytes.Contains(bytes.ToLower(text), []byte("covert")) {
		t.Errorf("it has %s (%v)", text, err)
	}
	if err := taskstate.CheckOrder(b, "cluster", 0, unseal); err != nil {
		t.Errorf("without its private part: %v", err)
	}
	if again := bare(b); !reflect.DeepEqual(again, b) {
		t.Errorf("bared again it is %+v", again)
	}
	l := taskstate.Launch{Task: taskstate.Task(j.ID, 1, 1), Job: b}
	if err := l.CheckOrder("cluster", 0, unseal); !errors.Is(err, taskstate.ErrOrderForged) {
		t.Errorf("a task of it: %v", err)
	}
	half := bare(j)
	half.Each = j.Each
	if err := taskstate.CheckOrder(half, "cluster", 0, unseal); !errors.Is(err, taskstate.ErrOrderForged) {
		t.Errorf("with something that is withheld: %v", err)
	}
	b.Priority++
	if err := taskstate.CheckOrder(b, "cluster", 0, unseal); !errors.Is(err, taskstate.ErrOrderForged) {
		t.Errorf("changed: %v", err)
	}
}

func TestAJobThatNobodySignedStaysWhole(t *testing.T) {
	if b := bare(whole()); !reflect.DeepEqual(b, whole()) {
		t.Errorf("it is %+v", b)
	}
}

func TestABareJobDecidesAsTheWholeOne(t *testing.T) {
	for name, c := range fieldCases() {
		if name == "Withheld" || name == "Order" {
			continue
		}
		old := ordered(t, whole(), nil)
		changed := whole()
		c.change(changed)
		ordered(t, changed, old.Order)
		for _, pair := range [][2]*taskstate.Job{{bare(old), changed}, {old, bare(changed)}, {bare(old), bare(changed)}} {
			if got, want := taskstate.Restarts(pair[0], pair[1]), taskstate.Restarts(old, changed); got != want {
				t.Errorf("Job.%s restarts: %v, whole: %v", name, got, want)
			}
			if got, want := len(taskstate.Changes(pair[0], pair[1])) > 0, len(taskstate.Changes(old, changed)) > 0; got != want {
				t.Errorf("Job.%s changed: %v, whole: %v", name, got, want)
			}
		}
	}
	j := ordered(t, whole(), nil)
	b := bare(j)
	if b.Weight() != j.Weight() || b.Saves() != j.Saves() || !reflect.DeepEqual(b.Needs(), j.Needs()) || !bytes.Equal(b.SubmissionDigest(), j.SubmissionDigest()) {
		t.Errorf("bare: weight %d saves %v needs %v, whole: %d %v %v", b.Weight(), b.Saves(), b.Needs(), j.Weight(), j.Saves(), j.Needs())
	}
	sealed := whole()
	sealed.Secrets.Sealed = []byte("covert-sealed-again")
	ordered(t, sealed, j.Order)
	if taskstate.Restarts(b, bare(sealed)) {
		t.Error("sealed again, tasks would begin anew")
	}
}

func TestABareJobIsFilledFromTheCopyThatWasSignedOnly(t *testing.T) {
	j := ordered(t, whole(), nil)
	b := bare(j)
	for what, other := range map[string]*taskstate.Job{"another body": ordered(t, whole(), nil), "another order": ordered(t, whole(), j.Order), "a bare one": bare(j)} {
		if what == "another body" {
			other.Run.Process.Command[0] = "else"
		}
		if b.Fill(other) || b.Withheld == nil {
			t.Errorf("it took %s", what)
		}
	}
	if !b.Fill(j) || !reflect.DeepEqual(b, j) {
		t.Errorf("filled it is %+v", b)
	}
}

func TestAJobFitsItsOrderOnlyAsItWasSigned(t *testing.T) {
	j := ordered(t, whole(), nil)
	if !j.Fits() || !bare(j).Fits() {
		t.Error("it does not")
	}
	for what, change := range map[string]func(*taskstate.Job){
		"another command": func(j *taskstate.Job) { j.Run.Process.Command = []string{"else"} },
		"another item":    func(j *taskstate.Job) { j.Each = []string{"covert-1", "else", "covert-3"} },
		"no items":        func(j *taskstate.Job) { j.Each = nil },
		"another count":   func(j *taskstate.Job) { j.Count++ },
		"no order":        func(j *taskstate.Job) { j.Order = nil },
	} {
		x := ordered(t, whole(), nil)
		change(x)
		if x.Fits() {
			t.Errorf("it fits with %s", what)
		}
	}
}

// Peers that have nothing to do with a job get all of it but what is withheld. So each field says
// here which of both it is: one that is on no list is known to everybody.
func TestEveryFieldOfAJobSaysWhetherEverybodyMayKnowIt(t *testing.T) {
	secret := []string{"Run", "Matrix", "Inputs", "Outputs", "Each", "Secrets"}
	known := []string{
		"ID", "Name", "Type", "Count", "First", "Numbered", "Resources", "Timeout", "Parallel", "Unreachable", "Submitter", "MaxPerPeer", "Version", "Constraints",
		"Strategy", "Over", "Restart", "MaxFails", "Update", "After", "Schedule", "Priority", "Origin", "MaxOutput", "Stdin", "Escaped", "Delay", "KeepLogs", "Order",
		"Isolate", "Net", "Limits", "Withheld",
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[taskstate.Job]()) {
		if !slices.Contains(secret, field.Name) && !slices.Contains(known, field.Name) {
			t.Errorf("Job.%s: may everybody know it? If so, add it to known. If not, add it to secret, and in withheld.go and order.go (privateJob)", field.Name)
		}
	}
	whole := func() *taskstate.Job {
		var j taskstate.Job
		golden.Fill(reflect.ValueOf(&j).Elem(), 1, nil)
		j.Count, j.Order, j.Withheld, j.Origin = 1, nil, nil, nil
		return ordered(t, &j, nil)
	}
	j := whole()
	b := bare(j)
	for _, name := range known {
		if name != "Withheld" && !reflect.DeepEqual(reflect.ValueOf(b).Elem().FieldByName(name).Interface(), reflect.ValueOf(j).Elem().FieldByName(name).Interface()) {
			t.Errorf("Job.%s is withheld", name)
		}
	}
	for _, name := range secret {
		if !reflect.ValueOf(b).Elem().FieldByName(name).IsZero() {
			t.Errorf("Job.%s is not withheld", name)
		}
		changed := whole()
		field := reflect.ValueOf(changed).Elem().FieldByName(name)
		field.SetZero()
		if changed.Fits() {
			t.Errorf("without its %s the job is still what was signed", name)
		}
		if back := bare(whole()); !back.Fill(whole()) || reflect.ValueOf(back).Elem().FieldByName(name).IsZero() {
			t.Errorf("Job.%s does not come back", name)
		}
	}
}
