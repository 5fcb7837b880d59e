package api

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

// Peer is one row of `peer peers`, as this peer knows it.
type Peer struct {
	ID           string   `json:"id"`
	Name         string   `json:"name"`
	Standing     string   `json:"standing"` // ready suspect detached unreachable left unknown, and Stopped
	Coordinator  bool     `json:"coordinator"`
	Voter        bool     `json:"voter"`
	Availability string   `json:"availability"` // active pause drain
	Self         bool     `json:"self"`
	Path         string   `json:"path"` // self direct relayed none
	RTT          float64  `json:"rtt"`  // seconds, 0 if unknown, or there is no path
	CPUs         float64  `json:"cpus"`
	CPUsRunning  float64  `json:"cpus_running"` // of tasks that have begun
	CPUsQueued   float64  `json:"cpus_queued"`  // of tasks it was given and has not begun
	Memory       int64    `json:"memory"`       // bytes
	MemoryUsed   int64    `json:"memory_used"`  // promised to tasks that have begun
	Disk         int64    `json:"disk"`         // bytes
	DiskUsed     int64    `json:"disk_used"`    // promised to tasks that have begun
	Tasks        int      `json:"tasks"`        // assigned and not ended
	Version      string   `json:"version"`
	Age          float64  `json:"age"` // seconds since the news this row rests on changed or was confirmed
	Addrs        []string `json:"addrs"`
	Roles        []string `json:"roles"`
	Trouble      string   `json:"trouble,omitempty"` // why it takes no tasks, though it is here: its disk is full, read-only or stuck

	Load *Load `json:"load,omitempty"` // of its machine, with all that runs there; none if it does not say, or has no session

	Troubles []Trouble `json:"troubles,omitempty"` // everything that is known to be wrong with it, ordered by code

	// Holds is what it can keep from tasks, as a trial at its start showed: nnp (programs gain no
	// privileges), hide (its data folder), uid (users of their own), landlock, fs (others' files),
	// net, cgroup (all that a task started ends with it), limits (of its processes).
	Holds []string `json:"holds,omitempty"`

	OS         string            `json:"os"` // "" until it had a session with this coordinator
	Arch       string            `json:"arch"`
	Labels     map[string]string `json:"labels"`      // that constraints see: its own, and what people laid over them
	Offers     map[string]int64  `json:"offers"`      // named counts besides cpus, memory and disk
	OffersUsed map[string]int64  `json:"offers_used"` // of these, what is promised to tasks that have begun

	AvailabilityReason string `json:"availability_reason,omitempty"` // as who paused or drained it said
	TasksLeft          *int   `json:"tasks_left,omitempty"`          // drained: tasks on it whose end is not acknowledged yet
}

// Trouble is something that is wrong with a peer. Code is for programs and never changes its
// meaning; Message says to a person what happened, and what to type.
type Trouble struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Codes of Trouble.
const (
	TroubleTakesNoTasks  = "takes-no-tasks"  // its worker takes nothing on, and no other code says why
	TroubleCopied        = "copied-identity" // another peer with this one's key answers at the same time
	TroubleMoved         = "folder-moved"    // its data folder was made in another place or on another machine
	TroubleDiskFull      = "disk-full"       // next to nothing can be written on its disk any more
	TroubleExhausted     = "exhausted"       // its machine refused it a process or an open file: it takes fewer tasks
	TroubleNoRoom        = "no-room"         // the inputs of a job found no room there, whose tasks go elsewhere
	TroubleStoreFull     = "store-full"      // what tasks left there takes all the room it has for that
	TroubleOldVersion    = "old-version"     // it runs a version that does not understand this one, or what the cluster speaks
	TroubleLies          = "lies"            // it sends others what honest software never sends
	TroubleJournalLost   = "journal-lost"    // its worker's journal is gone, damaged or older than what others saw
	TroubleLedgerDiffers = "ledger-differs"  // its copy of the ledger is not what the voters have, or theirs are not alike
	TroubleLedgerAhead   = "ledger-ahead"    // the ledger's time is ahead of its clock
	TroubleStartsNothing = "starts-nothing"  // it has room for what it was given and does not start it
	TroubleAuditStops    = "audit-stopped"   // its log of what it did in others' names is not written: its disk takes nothing
	TroubleExposed       = "exposed"         // its tasks can read its private key
	TroubleUnsigned      = "unsigned"        // it takes jobs that nobody signed: whoever coordinates may have anything run there
	TroubleStaleSeat     = "stale-seat"      // its log of decisions, as a voter, may be an old copy: it gives no vote until it has what the others have
	TroubleSetAside      = "set-aside"       // entries of its log, as a voter, were taken out and kept, and jobs in them are known nowhere
	TroubleLogLost       = "log-lost"        // its log of decisions, as a voter, is gone, damaged or older than what it acknowledged
)

// Peers answers GET /v1/peers.
type Peers struct {
	Peers       []Peer   `json:"peers"`
	Coordinator string   `json:"coordinator"` // peer id, "" if there is none in sight
	Epoch       string   `json:"epoch"`
	Missing     []string `json:"missing,omitempty"`     // voters that do not answer, when there is no coordinator
	WaitingFor  string   `json:"waiting_for,omitempty"` // the same in words, and how many of them are enough

	// Frozen means that no task of an unreachable peer is given to another one: so many vanished
	// together that the coordinator may be the isolated one. Ended by their return or `peer thaw`.
	Frozen       bool      `json:"frozen"`
	FrozenReason string    `json:"frozen_reason,omitempty"`
	AsOf         time.Time `json:"as_of"`
}

// Thawed answers POST /v1/thaw: the names of the peers whose tasks may be replaced now.
type Thawed struct {
	Thawed []string  `json:"thawed"`
	AsOf   time.Time `json:"as_of"`
}

// Job is one row of `peer jobs`.
type Job struct {
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Type      string         `json:"type"`
	State     string         `json:"state"` // held pending running complete failed shutdown
	Count     int            `json:"count"`
	Tasks     map[string]int `json:"tasks"` // by task state; pending running complete failed … always present
	Submitted time.Time      `json:"submitted"`
	Ended     *time.Time     `json:"ended,omitempty"`
	Submitter string         `json:"submitter"`
	// SubmitterName is its name, where jobs are asked for and it is known.
	SubmitterName string `json:"submitter_name,omitempty"`

	Cancelled string `json:"cancelled,omitempty"` // why
	Waiting   string `json:"waiting,omitempty"`   // why nothing more starts, if something waits
	ExitCode  *int   `json:"exit_code,omitempty"` // once ended: what run and wait exit with

	Wanted   int           `json:"wanted,omitempty"`   // service and global: tasks there are to be
	Version  int           `json:"version,omitempty"`  // service and global
	Rollout  *Rollout      `json:"rollout,omitempty"`  // of the newest update
	After    []Predecessor `json:"after,omitempty"`    // what has to be complete first, as long as it is not
	Schedule *Schedule     `json:"schedule,omitempty"` // it only starts others
	Origin   *Origin       `json:"origin,omitempty"`   // it was started by a schedule
	Pinned   bool          `json:"pinned,omitempty"`   // kept when it is over, because somebody said so
	Spec     *Spec         `json:"spec,omitempty"`     // what it runs; only where one job is asked for
	Command  string        `json:"command,omitempty"`  // of that, the first 80 bytes of the command; only where jobs are listed

	Truncated bool `json:"truncated,omitempty"` // not all output of its tasks was kept, because of the cap: ExitCode is 125

	Order *Order `json:"order,omitempty"` // who signed it; none in jobs of before there were orders

	// Unreachable lists the peers that cannot be reached and have tasks of the job, which are
	// counted as what they were when last heard of.
	Unreachable []Away `json:"unreachable,omitempty"`
	// Sole lists the peers that have the only copy of what some of its tasks printed, where one job
	// is asked for.
	Sole []SoleOutput `json:"sole,omitempty"`
	Pace *Pace        `json:"pace,omitempty"` // how fast it goes; only where one job is asked for that ends by itself
}

// Order is what a job is run on: somebody's signature.
type Order struct {
	By     string    `json:"by"` // the peer whose key it is
	Signed time.Time `json:"signed"`
	Until  time.Time `json:"until"` // nothing of the job starts later
}

// Away is a peer that cannot be reached, and what it has of a job.
type Away struct {
	Peer     string `json:"peer"`
	PeerName string `json:"peer_name"`
	Tasks    int    `json:"tasks"`   // that have not ended
	Running  int    `json:"running"` // of these, those that ran when last heard of
	Unreachable
}

// SoleOutput says that output of tasks – what they printed – is kept once only.
type SoleOutput struct {
	Peer     string `json:"peer"`
	PeerName string `json:"peer_name"`
	Tasks    int    `json:"tasks"`
	Bytes    int64  `json:"bytes"`
	Why      string `json:"why,omitempty"`
}

// Unreachable says of a task that its peer cannot be reached.
type Unreachable struct {
	Since time.Time `json:"since"`
	Then  string    `json:"then"` // what will happen, for people: "replaced in 2s", "waits for it", "replacement is frozen"
}

// Pace says how fast the tasks of a job end and how long they ran. Times are in seconds.
type Pace struct {
	Rate    float64        `json:"rate"`    // tasks that ended in a second, over the last half minute; 0: none did
	Left    float64        `json:"left"`    // until all have ended, at that rate; 0: that cannot be said, or none is left
	Running map[string]int `json:"running"` // tasks that run, by the name of their peer
	Ran     float64        `json:"ran"`     // an ended task ran so long, on average
	Waited  float64        `json:"waited"`  // and had waited so long before
	// Longest is the task that ran longest of those that ended, "" if none did.
	Longest     string  `json:"longest"`
	LongestTook float64 `json:"longest_took"`
	// Peers are those that ran tasks of the job or run some, those that take longest for one first.
	Peers []PeerPace `json:"peers"`
}

// PeerPace says how long tasks of a job take on one peer, in seconds.
type PeerPace struct {
	Peer     string  `json:"peer"`
	PeerName string  `json:"peer_name"`
	Ended    int     `json:"ended"`            // tasks that are complete there, and say how long they took
	Took     float64 `json:"took"`             // their median; 0: none are
	Running  int     `json:"running"`          // tasks that run there now
	Oldest   float64 `json:"oldest"`           // the longest of them has run so long
	Others   float64 `json:"others"`           // what a task takes on the other peers; 0: too few have ended there
	Slower   float64 `json:"slower,omitempty"` // this peer is clearly slower than the others: it takes so many times as long
}

// Over tells whether the job has ended.
func (j Job) Over() bool { return j.Ended != nil }

// Jobs answers GET /v1/jobs.
type Jobs struct {
	Jobs []Job     `json:"jobs"`
	AsOf time.Time `json:"as_of"`
	All  int       `json:"all,omitempty"` // with a limit: how many there are of those that are asked for
}

// JobStates are the states a job may be in, as people read them; in Job.State one that was
// cancelled is shutdown.
var JobStates = []string{"held", "pending", "running", "complete", "failed", "cancelled"}

// JobQuery is which jobs are asked for.
type JobQuery struct {
	States []string  // of JobStates; none: all
	Since  time.Time // those that go on, and those that ended after it
	Limit  int       // the newest so many; 0: all
}

// In tells whether a job in that state is asked for.
func (q JobQuery) In(state string) bool {
	return len(q.States) == 0 || slices.Contains(q.States, state) || state == "shutdown" && slices.Contains(q.States, "cancelled")
}

// JobAnswer answers GET /v1/jobs/{id}.
type JobAnswer struct {
	Job  Job       `json:"job"`
	AsOf time.Time `json:"as_of"`
}

// Task is one row of `peer tasks`.
type Task struct {
	ID       string    `json:"id"`
	Named    string    `json:"named,omitempty"` // what commands call it, where that is not its id
	Job      string    `json:"job"`
	Slot     int       `json:"slot"`
	Attempt  int       `json:"attempt"`
	State    string    `json:"state"`
	Desired  string    `json:"desired"`
	Peer     string    `json:"peer"`
	PeerName string    `json:"peer_name"`
	ExitCode *int      `json:"exit_code"`
	Signal   int       `json:"signal,omitempty"`
	Message  string    `json:"message"`
	Reason   string    `json:"reason"`
	Item     string    `json:"item,omitempty"` // if ItemBase64 is there: escaped
	At       time.Time `json:"at"`             // of the newest status
	Took     float64   `json:"took"`           // seconds it ran, once it has ended, by its peer's monotonic clock; 0 if it never ran, or nobody knows

	// Final says that its slot has ended with it and gets no other attempt by itself. A task that
	// has ended and is not final is yet to be decided on, or was left behind.
	Final bool `json:"final"`

	// Waited is the seconds before it was started: for a peer to have room, and there for its turn.
	Waited float64 `json:"waited"`

	ItemBase64 []byte `json:"item_base64,omitempty"` // the bytes of the item, where one of its job is not UTF-8

	Unreachable *Unreachable `json:"unreachable,omitempty"` // State is what was heard last: its peer cannot be reached

	Version   int        `json:"version,omitempty"`    // of the job, service and global
	Leaving   string     `json:"leaving,omitempty"`    // it is being stopped, and not because the job is: why
	Retired   bool       `json:"retired,omitempty"`    // its slot is not wanted any more
	Earlier   bool       `json:"earlier,omitempty"`    // an attempt that its slot has left behind
	NotBefore *time.Time `json:"not_before,omitempty"` // pending: it does not start before
	Truncated bool       `json:"truncated,omitempty"`  // not all of its output was kept, because of the cap

	// HeldTo is what it was kept from when it ran, in words of Peer.Holds: what was done, not what
	// was asked for. Empty: from nothing; nil: it has not run, or that is not known.
	HeldTo []string `json:"held_to,omitzero"`

	Output *Output `json:"output,omitempty"` // of a task that has ended, if its job names outputs or keeps logs
}

// Called is how commands and columns call it.
func (t Task) Called() string { return cmp.Or(t.Named, t.ID) }

// ShortTask is what a task is called without its job: SLOT.ATTEMPT, in an array ITEM.ATTEMPT.
func ShortTask(called string) string {
	if _, task, ok := strings.Cut(called, "."); ok {
		return strings.TrimPrefix(task, "item=")
	}
	return called
}

// Fact is one line of `peer explain`: something that was decided or observed about a job or task.
type Fact struct {
	Time     time.Time `json:"time"`
	Kind     string    `json:"kind"` // job task peer coordinator waiting note
	Task     string    `json:"task,omitempty"`
	Named    string    `json:"named,omitempty"` // as Task.Named
	Peer     string    `json:"peer,omitempty"`
	PeerName string    `json:"peer_name,omitempty"`
	State    string    `json:"state,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	ExitCode *int      `json:"exit_code,omitempty"`
	HeldTo   []string  `json:"held_to,omitzero"` // of a task that runs or has run, as Task.HeldTo
	Text     string    `json:"text"`             // the whole line for a person, but for time, task, peer and HeldTo
}

// Explanation answers GET /v1/explain/{id}: the story of a job or task, in order of time.
type Explanation struct {
	Explain []Fact    `json:"explain"`
	Spec    *Spec     `json:"spec,omitempty"` // what the job runs
	AsOf    time.Time `json:"as_of"`
}

// Event is one line of `peer watch`. Token resumes after it, at the same peer and the same start of
// it.
//
// A snapshot says that events may be missing before it, and why. If it has no token, what is known
// now follows, each line marked Snapshot, up to the line "synced": what is not listed is not there
// any more, and none of it counts before synced has come. A bookmark says that nothing has
// happened; an end, that the stream ends here and is to be resumed.
type Event struct {
	Seq     uint64    `json:"seq"`
	Token   string    `json:"token,omitempty"`
	Time    time.Time `json:"time"`
	Kind    string    `json:"kind"` // job task peer coordinator snapshot synced bookmark end
	Job     string    `json:"job,omitempty"`
	Task    string    `json:"task,omitempty"`
	Peer    string    `json:"peer,omitempty"`
	State   string    `json:"state,omitempty"`
	Exit    *int      `json:"exit_code,omitempty"`
	Message string    `json:"message,omitempty"`

	Snapshot  bool `json:"snapshot,omitempty"`  // this is how things stand, not what happened
	Forgotten bool `json:"forgotten,omitempty"` // of a job that had ended so: it is not kept any more
}

// Submit is the body of POST /v1/jobs. The id is minted by the peer that is asked, unless the job
// brings one.
type Submit struct {
	Job taskstate.Job `json:"job"`
	// Secrets are the values of the job's secrets by name. The peer that is asked seals them, and
	// keeps them in no other form.
	Secrets map[string][]byte `json:"secrets,omitempty"`
}

// Submitted answers POST /v1/jobs. Held means: journaled here, no coordinator has accepted it yet;
// Note says who is missing and what to type.
type Submitted struct {
	ID   string `json:"id"`
	Held bool   `json:"held"`
	Note string `json:"note,omitempty"`

	// A job whose name is that of a service, global or scheduled job that goes on is an update of
	// that. Without changes nothing was done.
	Updated bool               `json:"updated,omitempty"`
	Version int                `json:"version,omitempty"`
	Changes []taskstate.Change `json:"changes,omitempty"`

	OrderUntil *time.Time `json:"order_until,omitempty"` // of a renewed job: until then it starts tasks
}

// LogChunk is one line of GET /v1/jobs/{id}/logs. Exactly one of Data, Note and Error is set, or
// none on a final line.
type LogChunk struct {
	Task   string `json:"task"`
	Named  string `json:"named,omitempty"`  // as Task.Named
	Stream string `json:"stream,omitempty"` // stdout stderr
	Data   []byte `json:"data,omitempty"`
	Note   string `json:"note,omitempty"`  // for people: the log was cut, the peer cannot be reached, …
	Error  *Error `json:"error,omitempty"` // this task's log cannot be had
	EOF    bool   `json:"eof,omitempty"`   // nothing more of this task

	At *time.Time `json:"at,omitempty"` // with LogQuery.Times: when Data was there, by the clock of the peer it is from
}

// LogQuery selects what GET /v1/jobs/{id}/logs sends.
type LogQuery struct {
	Follow bool
	Slot   int    // 0 = every slot
	Task   string // a task id instead of a slot
	Stream string // "" = both
	Tail   int    // only so many last lines of each stream of each task; 0 = all
	Since  time.Time
	Times  bool // chunks say when they were written
}

// Progress is one line of GET /v1/jobs/{id}/follow: the job as it is now, and the tasks that
// changed since the line before (all that have begun, on the first line). The line of an ended job
// is the last.
type Progress struct {
	Job   Job    `json:"job"`
	Tasks []Task `json:"tasks,omitempty"`
}

// TicketRequest is the body of POST /v1/tickets.
type TicketRequest struct {
	Roles   []string `json:"roles"`
	Expires float64  `json:"expires"` // seconds
	Uses    int      `json:"uses"`    // 0 = no limit
}

// Ticket answers POST /v1/tickets: the secret line, once.
type Ticket struct {
	ID      string    `json:"id"`
	Ticket  string    `json:"ticket"`
	Secret  string    `json:"secret"`
	Expires time.Time `json:"expires"`
	Warning string    `json:"warning,omitempty"`
}

// Invite is one row of GET /v1/tickets.
type Invite struct {
	ID      string    `json:"id"`
	Roles   []string  `json:"roles"`
	Expires time.Time `json:"expires"`
	Uses    int       `json:"uses"`
	Used    int       `json:"used"`
	State   string    `json:"state"` // valid expired used-up revoked
	// By is the id of the peer that made it, "" if that is not known, and Admitted those of the
	// peers it let in, removed ones too.
	By       string   `json:"by,omitempty"`
	Admitted []string `json:"admitted,omitempty"`
}

// Invites answers GET /v1/tickets.
type Invites struct {
	Tickets []Invite  `json:"tickets"`
	AsOf    time.Time `json:"as_of"`
}

// Status answers GET /v1/status: who this peer is and how it stands.
type Status struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	Cluster     string   `json:"cluster"`
	How         string   `json:"how"` // founded joined resumed
	Addrs       []string `json:"addrs"`
	Data        string   `json:"data"`
	PID         int      `json:"pid"`
	Ready       bool     `json:"ready"` // its start is over: it is in contact, or has waited for that long enough
	Open        bool     `json:"open"`
	Coordinator string   `json:"coordinator"`
	// CoordinatorName is its name, if it is known.
	CoordinatorName string    `json:"coordinator_name,omitempty"`
	Epoch           string    `json:"epoch"`
	Index           uint64    `json:"index"` // ledger index applied here
	Voters          []string  `json:"voters"`
	Missing         []string  `json:"missing,omitempty"`
	Warnings        []string  `json:"warnings,omitempty"`
	Troubles        []Trouble `json:"troubles,omitempty"` // what is wrong with this peer, for programs; each is among the warnings, too
	AsOf            time.Time `json:"as_of"`

	// Untrusted are, while this machine lets nobody in and so runs nothing, the keys of
	// administrators: for `peer trust add`.
	Untrusted []TrustKey `json:"untrusted,omitempty"`
}

// Stats answers GET /v1/stats: what this peer costs and holds, for `peer bench`.
type Stats struct {
	RSS        int64            `json:"rss"` // bytes
	CPU        float64          `json:"cpu"` // seconds of processor time since it started
	Uptime     float64          `json:"uptime"`
	Goroutines int              `json:"goroutines"`
	Counters   map[string]int64 `json:"counters"`
}

// Block is the body of POST /v1/testnet/block: the peers to be cut off from (an empty list heals),
// and how much all connections together carry in each direction.
type Block struct {
	Peers []string `json:"peers"`
	Rate  int64    `json:"rate,omitempty"` // bytes per second; 0: as much as they can
}

// Removal is how a peer is removed.
type Removal struct {
	Revoke bool // its key counts for nothing any more: what it ordered ends
}

// Ordered is what a peer's key ordered and is not over, and which members (by name) have the roles
// that it gave them last.
type Ordered struct {
	Peer string       `json:"peer"`
	Jobs []OrderedJob `json:"jobs"`
	Gave []string     `json:"gave,omitempty"`
	// Secrets are those of all jobs in the ledger that the peer sealed or may have opened.
	Secrets []OrderedSecret `json:"secrets,omitempty"`
}

// OrderedSecret names the secrets of one job that a peer may know.
type OrderedSecret struct {
	Job     string   `json:"job"`
	Name    string   `json:"name,omitempty"`  // of the job
	Secrets []string `json:"secrets"`         // their names
	Given   bool     `json:"given,omitempty"` // at that peer
}

// OrderedJob is one job of Ordered.
type OrderedJob struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	Type string `json:"type"`
	Run  bool   `json:"run,omitempty"` // of a schedule, whose order it has
}
