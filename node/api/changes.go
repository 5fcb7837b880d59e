package api

import (
	"context"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

// ChangeBackend changes jobs that were submitted, and tells what a change would do.
type ChangeBackend interface {
	// Preview tells where the tasks of a job would go if it were submitted now, and what that
	// changes if it is an update.
	Preview(ctx context.Context, s Submit) (Preview, error)
	// Renew has this peer sign a job anew, so that it may go on starting tasks.
	Renew(ctx context.Context, id string) (Submitted, error)
	// Scale gives a service another count.
	Scale(ctx context.Context, id string, r Scale) (Submitted, error)
	// Rollout pauses, continues or turns back the update of a service or global job.
	Rollout(ctx context.Context, id string, r RolloutRequest) (JobAnswer, error)
	// Retry gives the slots that failed another attempt, also in a job that is over.
	Retry(ctx context.Context, id string) (Retried, error)
	// Pin has a job kept when it is over, or ends that.
	Pin(ctx context.Context, id string, not bool) (JobAnswer, error)
	// Trigger starts a run of a schedule now.
	Trigger(ctx context.Context, id string) (Submitted, error)
	// Rebalance moves tasks of a service so that its peers have about as many each; with dryRun it
	// only tells.
	Rebalance(ctx context.Context, id string, dryRun bool) (Rebalanced, error)
	// AllTasks is Tasks with slots that are not wanted any more and with earlier attempts, as far
	// as they are remembered.
	AllTasks(ctx context.Context, id string) (Tasks, error)
}

// Preview answers POST /v1/jobs?dry_run=1: what would become of the job now. Nothing was changed.
type Preview struct {
	ID      string             `json:"id,omitempty"` // of the job that it would be an update of
	Update  bool               `json:"update"`
	Version int                `json:"version,omitempty"` // the update's
	Changes []taskstate.Change `json:"changes,omitempty"` // of the update
	Tasks   int                `json:"tasks"`             // that would be placed now
	Places  []Place            `json:"places"`            // where they would go
	Queued  int                `json:"queued"`            // so many of them would wait there until something ends
	Waiting int                `json:"waiting"`           // tasks that no peer could take now
	Reason  string             `json:"reason,omitempty"`  // why
	Refused []Refusal          `json:"refused,omitempty"` // the same, counted
	Owners  []Answer           `json:"owners"`            // what the owner of each peer that takes tasks says
	Notes   []string           `json:"notes,omitempty"`   // what else decides about its start
	AsOf    time.Time          `json:"as_of"`
}

// Answer is whether a peer's owner lets a job in.
type Answer struct {
	Peer     string `json:"peer"`
	PeerName string `json:"peer_name"`
	Allowed  bool   `json:"allowed"`
	Reason   string `json:"reason,omitempty"` // why not
}

// Place is a peer that would get tasks.
type Place struct {
	Peer     string `json:"peer"`
	PeerName string `json:"peer_name"`
	Tasks    int    `json:"tasks"`
}

// Refusal is a reason and how many peers it keeps away.
type Refusal struct {
	Reason string `json:"reason"`
	Peers  int    `json:"peers"`
}

// Scale is the body of POST /v1/jobs/{id}/scale.
type Scale struct {
	Count int `json:"count"`
}

// What RolloutRequest can ask for.
const (
	PauseRollout    = "pause"
	ContinueRollout = "continue"
	RollBack        = "rollback"
)

// RolloutRequest is the body of POST /v1/jobs/{id}/rollout.
type RolloutRequest struct {
	Action string `json:"action"` // pause continue rollback
}

// Retried answers POST /v1/jobs/{id}/retry.
type Retried struct {
	ID      string   `json:"id"`
	Retried int      `json:"retried"`         // slots that got another attempt
	Begun   []string `json:"begun,omitempty"` // jobs after this one that have begun, and are not repeated
}

// Rebalanced answers POST /v1/jobs/{id}/rebalance.
type Rebalanced struct {
	ID     string    `json:"id"`
	DryRun bool      `json:"dry_run"`
	AtOnce int       `json:"at_once"` // so many move at a time, as update.parallelism of the job says; 0 is all
	Moves  []Move    `json:"moves"`
	AsOf   time.Time `json:"as_of"`
}

// Move is a task that moves, or would. Where it goes is decided when it has ended: To is where that
// would be now.
type Move struct {
	Task     string `json:"task"`
	From     string `json:"from"`
	FromName string `json:"from_name"`
	To       string `json:"to"`
	ToName   string `json:"to_name"`
}

// Rollout is how far the tasks of a service or global job follow its version.
type Rollout struct {
	State   string    `json:"state"` // updating paused completed rolling-back rolled-back rollback-paused
	From    int       `json:"from,omitempty"`
	Updated int       `json:"updated"` // slots that have a task of the version
	Slots   int       `json:"slots"`
	Failed  int       `json:"failed,omitempty"` // slots on which the version failed, as its update ended all the same
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since"`
}

// Schedule is when a job starts others like it.
type Schedule struct {
	Cron    string     `json:"cron"`
	Zone    string     `json:"zone"`
	Overlap string     `json:"overlap"`
	Last    *time.Time `json:"last,omitempty"`
	Next    *time.Time `json:"next,omitempty"`
	Skipped int        `json:"skipped,omitempty"` // starts that were skipped because the run before went on
	Skip    *Skip      `json:"skip,omitempty"`    // the newest of them
}

// Skip is a start that a schedule skipped.
type Skip struct {
	At  time.Time `json:"at"`
	Run string    `json:"run"` // the run that went on
}

// Origin is the schedule that started a job, and for which moment.
type Origin struct {
	Job string    `json:"job"`
	At  time.Time `json:"at"`
}

// Predecessor is a job that has to be complete first.
type Predecessor struct {
	ID    string `json:"id"`
	Name  string `json:"name,omitempty"`
	State string `json:"state,omitempty"` // "" if the job is not known any more
}
