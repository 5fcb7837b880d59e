package api

import (
	"context"
	"io"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

// Backend is what the server serves: node implements it, tests bring their own. Ids may be whatever
// a person types: an id, a unique prefix, a name, `last`. Errors are *Error; others become Failed.
type Backend interface {
	JobBackend
	ShapeBackend
	ChangeBackend
	PeerBackend
	PeerKeeper
	SettingsBackend
	TrustBackend
	FileBackend
	AdminBackend
	DoorBackend
	DoctorBackend
}

// MetricsFormat is the media type of what Metrics writes: Prometheus' text format.
const MetricsFormat = "text/plain; version=0.0.4; charset=utf-8"

// JobBackend takes jobs and tells about them.
type JobBackend interface {
	Submit(ctx context.Context, s Submit) (Submitted, error)
	// ReadJobFile makes a job of a job file, with its defaults; name is for a job that names itself
	// nowhere. What the file names on a disk is refused: the peer opens no path of a user.
	ReadJobFile(ctx context.Context, name string, file []byte) (taskstate.Job, error)
	// Cancel stops a job, or one task of a batch job: JOB.SLOT or JOB.SLOT.ATTEMPT.
	Cancel(ctx context.Context, id string) (Job, error)
	Jobs(ctx context.Context) (Jobs, error)
	// SomeJobs lists those of them that are asked for.
	SomeJobs(ctx context.Context, q JobQuery) (Jobs, error)
	Job(ctx context.Context, id string) (JobAnswer, error)
	JobFile(ctx context.Context, id string) (JobFile, error)
	Tasks(ctx context.Context, id string) (Tasks, error)
	// Explain tells the story of a job, or of a task: JOB.SLOT or JOB.SLOT.ATTEMPT.
	Explain(ctx context.Context, id string) (Explanation, error)
	// Stdin reads r to its end, for the task of a job that was submitted here with Stdin set. It
	// returns when all is read, or of no use any more.
	Stdin(ctx context.Context, id string, r io.Reader) error
	// Follow calls send with the job's progress until the job is over, send fails or ctx ends. With
	// tasks it lists changed tasks, otherwise only the job.
	Follow(ctx context.Context, id string, tasks bool, send func(Progress) error) error
	// Logs calls send with log chunks until all is sent (with q.Follow: until the tasks are over).
	Logs(ctx context.Context, id string, q LogQuery, send func(LogChunk) error) error
}

// PeerBackend tells about this peer and the others.
type PeerBackend interface {
	Peers(ctx context.Context) (Peers, error)
	Status(ctx context.Context) (Status, error)
	Stats(ctx context.Context) (Stats, error)
	// Metrics writes numbers about this peer in MetricsFormat.
	Metrics(ctx context.Context, w io.Writer) error
	// Story lists what happened after a moment that is not about single tasks, the newest limit.
	Story(ctx context.Context, since time.Time, limit int) (Story, error)
	// Links tells which peers are connected to which, as far as they answer in half a second.
	Links(ctx context.Context) (Links, error)
	// PeerLoad tells how busy a peer's machine was for an hour: the peer itself is asked.
	PeerLoad(ctx context.Context, peer string) (PeerLoad, error)
	// Watch calls send with every event after since ("" = from now on, beginning with a snapshot
	// event).
	Watch(ctx context.Context, since string, send func(Event) error) error
}

// AdminBackend changes who may come in, and ends this peer.
type AdminBackend interface {
	Invite(ctx context.Context, r TicketRequest) (Ticket, error)
	Invites(ctx context.Context) (Invites, error)
	Revoke(ctx context.Context, id string) error
	Remove(ctx context.Context, peer string, how Removal) error
	// OrderedBy lists the jobs that a peer's key ordered and that are not over.
	OrderedBy(ctx context.Context, peer string) (Ordered, error)
	Leave(ctx context.Context) error
	// Thaw ends a freeze of replacement: the peers that have vanished are really gone.
	Thaw(ctx context.Context) (Thawed, error)
	Down(ctx context.Context) error
	// PlanRecover returns which jobs that were set aside here Recover would submit again, and
	// from which copy it would make a new ledger. It fails with Conflict while a coordinator
	// decides and nothing was set aside.
	PlanRecover(ctx context.Context) (RecoverPlan, error)
	// Recover makes a new ledger, submits jobs again that were set aside, or both. It makes no
	// ledger and fails with Conflict while anybody can decide, and when what was confirmed is no
	// longer to be had.
	Recover(ctx context.Context, r Recover) (Recovered, error)
	// Block cuts this peer off from others, and slows it down; refused unless the peer was started
	// for a testnet.
	Block(ctx context.Context, b Block) error
}
