package calls

import (
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

func TestARefusalSaysWhatToType(t *testing.T) {
	id := taskstate.JobID("k3v5q7x2ab")
	for _, c := range []struct {
		cmd  ledger.Command
		code ledger.Code
		want api.Code
		part string
	}{
		{ledger.Command{Submit: &ledger.Submit{Job: taskstate.Job{ID: id}}}, ledger.CodeConflict, api.Conflict, "submit again"},
		{ledger.Command{Cancel: &ledger.Cancel{Job: id}}, ledger.CodeOver, api.Conflict, "is over"},
		{ledger.Command{Cancel: &ledger.Cancel{Job: id}}, ledger.CodeUnknown, api.NotFound, "peer jobs"},
		{ledger.Command{Revoke: &ledger.Revoke{ID: "t1"}}, ledger.CodeUnknown, api.NotFound, "peer ticket --list"},
		{ledger.Command{Remove: &ledger.Remove{Peer: "p1"}}, ledger.CodeUnknown, api.NotFound, "peer peers"},
		{ledger.Command{Remove: &ledger.Remove{Peer: "p1"}}, ledger.CodeSole, api.Conflict, "only voter"},
		{ledger.Command{Depart: &ledger.Depart{Peer: "p1"}}, ledger.CodeUnknown, api.Conflict, "unknown"},
	} {
		wants(t, Refusal(c.cmd, c.code), c.want, c.part)
	}
}

// A peer that asks again after an answer was lost may be so late that the job has ended and is
// forgotten. It was accepted all the same.
func TestAJobThatIsOverAndForgottenWasAccepted(t *testing.T) {
	submit := ledger.Command{Submit: &ledger.Submit{}}
	if r := AnswerTo(submit, ledger.Result{Refused: ledger.CodeOver, Existed: true}, 7); r.Error != nil || r.Lost || r.Index != 7 {
		t.Errorf("answered with %+v", r)
	}
	if r := AnswerTo(submit, ledger.Result{Refused: ledger.CodeConflict, Existed: true}, 7); r.Error == nil {
		t.Error("another job of that id was taken for it")
	}
}
