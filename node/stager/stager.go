package stager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/node/blob"
	"github.com/coveyproject/covey/node/blob/disk"
	"github.com/coveyproject/covey/node/blob/store"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/spell"
)

// Config joins the parts.
type Config struct {
	Store   *store.Store
	Dir     string // where copies are, on the disk of the tasks' folders; what is in it goes
	Net     blob.Dialer
	Self    string
	Members func() []Member // the others
	Tell    func(Report)    // must not block
	// Over tells whether a job is over; known: whether the ledger has it, as far as this peer can
	// tell.
	Over func(taskstate.JobID) (over, known bool)
	// Left is what the tasks of a job left that is complete, as far as this peer knows; several: it
	// has more than one task.
	Left   func(taskstate.JobID) (left []Left, several bool, err error)
	Copies bool // every task has files of its own: whoever runs them may write to everything
	Log    *slog.Logger
}

// Member is another peer of this cluster.
type Member struct {
	ID, Name string
	Here     bool // it can be reached
}

// Report is how far the inputs of a job are here.
type Report struct {
	Job     taskstate.JobID
	Version int
	Here    bool // all of them
	NoRoom  bool // there is none for them
	Message string
}

const (
	atOnce     = 4 // jobs that are brought at once
	sweepEvery = time.Minute
	sayEvery   = 2 * time.Second
	silence    = 10 * time.Second // after which a source counts as gone; it goes on where it was
	lookEvery  = time.Second      // for somebody who came back
	pauseFirst = 2 * time.Second  // after a failure
	pauseMost  = 30 * time.Second // after many
	patience   = 10               // sweeps that do not find a job in the ledger before it counts as over
	roomPause  = time.Minute      // between two times that there is said to be no room
)

// Stager brings inputs. Its methods may be called by anybody.
type Stager struct {
	cfg    Config
	copies *copies
	wake   wake.Signal
	slots  chan struct{}

	mu   sync.Mutex
	sets map[key]*set
	todo []*set

	unknown map[taskstate.JobID]int // how many sweeps did not find a job; Sweep's
}

type key struct {
	job     taskstate.JobID
	version int
}

// set is the inputs of one job. The Stager's lock guards it, but for job.
type set struct {
	job    *taskstate.Job
	busy   bool // somebody brings it, or will
	noRoom time.Time
	files  []fileKey // that it uses
	stop   context.CancelFunc
}

// New makes it; Run does the work, and Close comes after it.
func New(cfg Config) (*Stager, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	c, err := openCopies(cfg.Store, cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("the folder for inputs cannot be made: %w", err)
	}
	return &Stager{cfg: cfg, copies: c, wake: wake.New(), slots: make(chan struct{}, atOnce), sets: map[key]*set{}}, nil
}

// Close comes when no task is being prepared any more.
func (s *Stager) Close() error { return s.copies.close() }

// Stage begins to bring a job's inputs here, unless that is being done, and returns at once.
func (s *Stager) Stage(job *taskstate.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.set(job)
	if x.busy {
		return
	}
	x.busy = true
	s.todo = append(s.todo, x)
	s.wake.Set()
}

// set is that of a job; the lock is held.
func (s *Stager) set(job *taskstate.Job) *set {
	k := key{job.ID, job.Version}
	x := s.sets[k]
	if x == nil {
		x = &set{job: job}
		s.sets[k] = x
	}
	return x
}

// Run brings what Stage asks for, and lets go of what jobs that are over had here, until ctx ends.
func (s *Stager) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-sweep.C:
			s.Sweep()
		case <-s.wake:
			s.mu.Lock()
			for _, x := range s.todo {
				life, stop := context.WithCancel(ctx)
				x.stop = stop
				all.Go(func() {
					defer stop()
					s.run(life, x)
				})
			}
			s.todo = nil
			s.mu.Unlock()
		}
	}
}

// run brings one job's inputs, however often that has to be tried.
func (s *Stager) run(ctx context.Context, x *set) {
	r := Report{Job: x.job.ID, Version: x.job.Version}
	defer func() {
		s.mu.Lock()
		x.busy, x.stop = false, nil
		s.mu.Unlock()
		if r.Here || r.NoRoom {
			s.cfg.Tell(r)
		}
	}()
	said := ""
	say := func(text string) {
		if text != said {
			said = text
			s.cfg.Tell(Report{Job: x.job.ID, Version: x.job.Version, Message: text})
		}
	}
	for pause := pauseFirst; ; pause = min(2*pause, pauseMost) {
		select {
		case s.slots <- struct{}{}:
		default:
			say("its inputs come after those of other jobs")
			select {
			case s.slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
		err := s.bring(ctx, x.job, say)
		<-s.slots
		var nobody *blob.Missing
		switch {
		case ctx.Err() != nil:
			return
		case err == nil, errors.Is(err, tree.ErrRefused): // the task says what is wrong with it
			r.Here = true
			return
		case noRoom(err):
			if s.firstRefusal(x) {
				r.NoRoom, r.Message = true, "no room here for its inputs: "+err.Error()
				return
			}
			say("no room here for its inputs: " + err.Error())
		case errors.As(err, &nobody):
			say(s.nobody(x.job, nobody))
		default:
			s.cfg.Log.Warn("inputs did not come", "job", x.job.ID, "err", err)
			say("its inputs did not come: " + err.Error())
		}
		if !s.waitOrNewPeer(ctx, pause) {
			return
		}
	}
}

// firstRefusal tells whether it was some time since the job was last given back for want of room.
func (s *Stager) firstRefusal(x *set) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !x.noRoom.IsZero() && time.Since(x.noRoom) < roomPause {
		return false
	}
	x.noRoom = time.Now()
	return true
}

// noRoom reports whether this peer cannot take inputs for now, which others may: its disk or store
// is full, or its machine refuses it another open file.
func noRoom(err error) bool {
	var full *disk.NoRoom
	return errors.Is(err, store.ErrNoRoom) || errors.As(err, &full) || isFull(err) || supervise.Exhausted(err)
}

// rest waits, but not when somebody has come who may have what is missing. It tells whether to go
// on.
func (s *Stager) waitOrNewPeer(ctx context.Context, pause time.Duration) bool {
	before := s.here()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	until := time.NewTimer(pause)
	defer until.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-until.C:
			return true
		case <-look.C:
			if slices.ContainsFunc(s.here(), func(id string) bool { return !slices.Contains(before, id) }) {
				return true
			}
		}
	}
}

// here are the others that can be reached.
func (s *Stager) here() (ids []string) {
	for _, m := range s.cfg.Members() {
		if m.Here {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// nobody says who may have what nobody has who is here.
func (s *Stager) nobody(job *taskstate.Job, m *blob.Missing) string {
	names := make([]string, len(job.Inputs))
	for i, in := range job.Inputs {
		names[i] = in.Name
	}
	text := fmt.Sprintf("waits for its inputs (%s): no reachable peer has all of them", some(names))
	var away, failed []string
	giver := ""
	for _, x := range s.cfg.Members() {
		name := cmp.Or(x.Name, x.ID)
		why, broken := m.Failed[x.ID]
		switch {
		case !x.Here && taskstate.PeerID(x.ID) == job.Submitter:
			giver = name
		case !x.Here:
			away = append(away, name)
		case broken:
			failed = append(failed, name+" ("+cmp.Or(why, "no answer")+")")
		}
	}
	if giver != "" {
		text += "; " + giver + ", where they were given, is away"
	}
	if len(away) > 0 {
		text += "; away, and may have them: " + some(away)
	}
	if len(failed) > 0 {
		text += "; without success: " + some(failed)
	}
	return text + "; it starts when they can be had"
}

// some names a few.
func some(names []string) string {
	const few = 4
	slices.Sort(names)
	if more := len(names) - few; more > 0 {
		return strings.Join(names[:few], ", ") + " and " + strconv.Itoa(more) + " more"
	}
	return strings.Join(names, ", ")
}

// bring has everything come that a job's tasks need, and keeps it.
func (s *Stager) bring(ctx context.Context, job *taskstate.Job, say func(string)) error {
	progress := progressOf("fetching", say)
	inputs, err := s.inputs(ctx, job)
	if err != nil {
		return err
	}
	refs := make([]tree.Ref, 0, len(inputs))
	var all int64
	for _, in := range inputs {
		refs = append(refs, in.ref)
		all += in.Bytes
	}
	f := blob.Fetcher{Net: s.cfg.Net, Self: s.cfg.Self, Patience: silence, Log: s.cfg.Log}
	// What tasks here need is not held to what the owner gives for copies, only to the disk. When
	// the job is over, it is.
	b, err := blob.Bring(ctx, s.cfg.Store, true, f, blob.Request{Peers: s.here, Apart: true, Progress: func(r blob.Report) {
		if r.Bytes > 0 {
			progress(r.Bytes, all)
		}
	}}, refs...)
	if err != nil {
		return err
	}
	defer b.Close()
	if err := s.cfg.Store.Pin(store.Pin{Name: pinOf(job), Why: cmp.Or(job.Name, string(job.ID)), Roots: b.Roots}); err != nil {
		return err
	}
	if s.cfg.Copies {
		return nil
	}
	return s.copyAll(ctx, job, inputs)
}

// copyAll makes the copies that tasks share.
func (s *Stager) copyAll(ctx context.Context, job *taskstate.Job, inputs []input) error {
	var files []fileKey
	seen := map[fileKey]bool{}
	add := func(k fileKey) {
		if !seen[k] {
			seen[k] = true
			s.copies.use(k)
			files = append(files, k)
		}
	}
	var err error
	for _, in := range inputs {
		if in.Writable {
			continue
		}
		if !in.ref.Dir {
			add(fileKey{in.ref.Root, in.Exec})
			continue
		}
		for e, bad := range blob.Entries(s.cfg.Store, in.ref.Root, &tree.Totals{}) {
			if err = bad; err != nil {
				break
			}
			if e.Kind == tree.File && e.Size > 0 {
				add(fileKey{e.Root, e.Exec})
			}
		}
	}
	for _, k := range files {
		if err != nil {
			break
		}
		err = s.copies.ensure(ctx, k)
	}
	s.mu.Lock()
	x := s.set(job)
	if err == nil {
		files, x.files = x.files, files
	}
	s.mu.Unlock()
	return errors.Join(err, s.copies.release(files)) // what it used before, or does not come to use
}

// progressOf returns a function that says from time to time how many bytes of all inputs are here.
func progressOf(doing string, say func(string)) func(done, all int64) {
	last := time.Now()
	return func(done, all int64) {
		if time.Since(last) < sayEvery {
			return
		}
		last = time.Now()
		if all <= 0 {
			say(fmt.Sprintf("%s its inputs, %s here", doing, spell.Bytes(done)))
			return
		}
		say(fmt.Sprintf("%s %s, %d %% here", doing, spell.Bytes(all), min(99, done*100/all)))
	}
}

// Pins are called in-JOB-VERSION.
const pinBegin = "in-"

func pinOf(job *taskstate.Job) string {
	return fmt.Sprintf("%s%s-%d", pinBegin, job.ID, job.Version)
}

// jobOf reads a job from the name of a pin.
func jobOf(pin string) (taskstate.JobID, bool) {
	rest, ok := strings.CutPrefix(pin, pinBegin)
	i := strings.LastIndexByte(rest, '-')
	if !ok || i <= 0 {
		return "", false
	}
	_, err := strconv.Atoi(rest[i+1:])
	return taskstate.JobID(rest[:i]), err == nil
}

// Sweep lets go of the inputs of jobs that are over. Run does it once a minute.
func (s *Stager) Sweep() {
	was, asked := s.unknown, map[taskstate.JobID]bool{}
	s.unknown = map[taskstate.JobID]int{}
	over := func(job taskstate.JobID) bool {
		is, done := asked[job]
		if !done {
			known := false
			if is, known = s.cfg.Over(job); !known {
				s.unknown[job] = was[job] + 1
				is = s.unknown[job] >= patience // a task may come before this peer hears of its job
			}
			asked[job] = is
		}
		return is
	}
	for _, p := range s.cfg.Store.Pins() {
		if job, ok := jobOf(p.Name); ok && over(job) {
			if err := s.cfg.Store.Unpin(p.Name); err != nil && !errors.Is(err, store.ErrAbsent) {
				s.cfg.Log.Warn("inputs of a job that is over are still kept", "job", job, "err", err)
			}
		}
	}
	s.mu.Lock()
	var gone []fileKey
	for k, x := range s.sets {
		if !over(k.job) {
			continue
		}
		if x.stop != nil {
			x.stop()
		}
		if !x.busy {
			gone = append(gone, x.files...)
			delete(s.sets, k)
		}
	}
	s.mu.Unlock()
	if err := s.copies.release(gone); err != nil {
		s.cfg.Log.Warn("copies of inputs could not be removed", "err", err)
	}
}
