package secrets

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/trust/seal"
)

// wires joins peers by pipes.
type wires struct {
	mu sync.Mutex
	at map[string]func(peer string, c net.Conn)
}

type port struct {
	*wires
	self string
}

func (p port) Handle(_ string, h func(string, net.Conn)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h == nil {
		delete(p.at, p.self)
		return
	}
	p.at[p.self] = h
}

func (p port) Dial(_ context.Context, peer, _ string) (net.Conn, error) {
	p.mu.Lock()
	h := p.at[peer]
	p.mu.Unlock()
	if h == nil {
		return nil, errors.New("nobody is there")
	}
	ask, answer := net.Pipe()
	go h(p.self, answer)
	return ask, nil
}

// world is a few peers and what the ledger says.
type world struct {
	t       testing.TB
	wires   *wires
	readers map[string]string // recipients that are known, by peer
	granted map[taskstate.TaskID]string
	jobs    map[taskstate.JobID]*taskstate.Job
}

type peer struct {
	*Secrets
	told chan Report
}

func newWorld(t testing.TB) *world {
	return &world{t: t, wires: &wires{at: map[string]func(string, net.Conn){}}, readers: map[string]string{}, granted: map[taskstate.TaskID]string{}, jobs: map[taskstate.JobID]*taskstate.Job{}}
}

func (w *world) peer(name string) *peer {
	key, err := seal.NewKey()
	if err != nil {
		w.t.Fatal(err)
	}
	told := make(chan Report, 100)
	s := New(Config{
		Self: name, Key: key, Cluster: func() string { return "cluster" }, Net: port{w.wires, name},
		Readers: func(context.Context, *taskstate.Job) (all []string) {
			for _, r := range w.readers {
				all = append(all, r)
			}
			return all
		},
		Grants: func(_ context.Context, peer taskstate.PeerID, q Request) (*taskstate.Job, error) {
			if w.granted[q.Task] != peer {
				return nil, &Error{Code: CodeNot, Message: "another peer runs it"}
			}
			return w.jobs[q.Task.Job], nil
		},
		Given: func(id taskstate.JobID) (taskstate.TaskID, uint64, bool) {
			for task, who := range w.granted {
				if task.Job == id && who == name {
					return task, 1, true
				}
			}
			return taskstate.TaskID{}, 0, false
		},
		Over: func(taskstate.JobID) (bool, bool) { return false, true },
		Name: func(id taskstate.PeerID) string { return string(id) },
		Tell: func(r Report) { told <- r }, Next: func(*taskstate.Job) {},
	})
	return &peer{s, told}
}

func (w *world) know(name string, p *peer) { w.readers[name] = p.cfg.Key.Recipient() }

// job is submitted at a peer.
func (w *world) job(at *peer, id taskstate.JobID, values map[string][]byte) *taskstate.Job {
	w.t.Helper()
	j := &taskstate.Job{ID: id, Type: taskstate.BatchJob, Count: 1, Submitter: at.cfg.Self}
	var err error
	if j.Secrets, err = at.Seal(w.t.Context(), j, values); err != nil {
		w.t.Fatal(err)
	}
	w.jobs[id] = j
	return j
}

func launch(j *taskstate.Job) taskstate.Launch {
	return taskstate.Launch{Task: taskstate.Task(j.ID, 1, 1), Job: j, Index: 1}
}

var password = map[string][]byte{"PW": []byte("hunter2")}

func TestAPeerThatWasKnownOpensWhatWasSealedAndNoOtherDoes(t *testing.T) {
	w := newWorld(t)
	giver, worker, other := w.peer("giver"), w.peer("worker"), w.peer("other")
	w.know("worker", worker)
	j := w.job(giver, "job", password)
	for _, p := range []*peer{giver, worker} {
		got, err := p.Values(t.Context(), launch(j))
		if err != nil || !maps.EqualFunc(got, password, bytes.Equal) {
			t.Errorf("%s: %q, %v", p.cfg.Self, got, err)
		}
	}
	if got, err := other.Values(t.Context(), launch(j)); err == nil {
		t.Errorf("another peer has them: %q", got)
	}
}

// Whoever holds a copy of the ledger has the sealed bytes of all jobs, and may put them into a job
// of his own that runs on a peer that can open them.
func TestWhatWasSealedForOneJobIsOfNoUseInAnother(t *testing.T) {
	w := newWorld(t)
	giver, worker := w.peer("giver"), w.peer("worker")
	w.know("worker", worker)
	j := w.job(giver, "job", password)
	for name, steal := range map[string]func(j *taskstate.Job){
		"another job":                func(j *taskstate.Job) { j.ID = "mine" },
		"a run of another schedule":  func(j *taskstate.Job) { j.Origin = &taskstate.Origin{Job: "mine"} },
		"given by another":           func(j *taskstate.Job) { j.Secrets.By = "thief" },
		"ordered by another":         func(j *taskstate.Job) { j.Order = &taskstate.Order{By: "thief"} },
		"ordered and given by thief": func(j *taskstate.Job) { j.Order, j.Secrets.By = &taskstate.Order{By: "thief"}, "thief" },
		"with another digest":        func(j *taskstate.Job) { j.Secrets.Digest = make([]byte, 32) },
		"with another name":          func(j *taskstate.Job) { j.Secrets.Names = []string{"PUBLIC"} },
	} {
		stolen, s := *j, *j.Secrets
		stolen.Secrets = &s
		steal(&stolen)
		if got, err := worker.Values(t.Context(), launch(&stolen)); err == nil {
			t.Errorf("%s: it was opened: %q", name, got)
		}
	}
	run := *j
	run.ID, run.Origin = "run", &taskstate.Origin{Job: "job", At: 1}
	if _, err := worker.Values(t.Context(), launch(&run)); err != nil {
		t.Errorf("a run of the job's own schedule: %v", err)
	}
	worker.cfg.Cluster = func() string { return "another" }
	if got, err := worker.Values(t.Context(), launch(j)); err == nil {
		t.Errorf("in another cluster: %q", got)
	}
}

func TestAPeerThatComesLaterHasThemFromTheOneTheyWereGivenTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		giver, late := w.peer("giver"), w.peer("late")
		j := w.job(giver, "job", password)
		w.granted[taskstate.Task("job", 1, 1)] = "late"
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = late.Run(ctx) })
		late.Stage(j)
		if r := <-late.told; r.Here || !strings.Contains(r.Message, "giver, where they were given, has to seal them for this peer, and cannot be reached") {
			t.Errorf("nobody is there, and it says %+v", r)
		}
		close := giver.Serve()
		r := <-late.told
		if !r.Here || r.Job != "job" {
			t.Errorf("%+v", r)
		}
		close() // it has its copy
		if got, err := late.Values(ctx, launch(j)); err != nil || !maps.EqualFunc(got, password, bytes.Equal) {
			t.Errorf("%q, %v", got, err)
		}
		cancel()
		wg.Wait()
	})
}

func TestSecretsAreSealedAgainOnlyForThePeerThatRunsTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		giver, thief := w.peer("giver"), w.peer("thief")
		defer giver.Serve()()
		j := w.job(giver, "job", password)
		w.granted[taskstate.Task("job", 1, 1)] = "worker"
		err := thief.ask(t.Context(), j, taskstate.Task("job", 1, 1), 1)
		if told, ok := errors.AsType[*Error](err); !ok || told.Code != CodeNot {
			t.Errorf("asked for by a peer that does not run it: %v", err)
		}
		w.granted[taskstate.Task("own", 1, 1)] = "thief" // a job of its own, with what it copied
		stolen := *j
		stolen.ID = "own"
		w.jobs["own"] = &stolen
		if err := thief.ask(t.Context(), &stolen, taskstate.Task("own", 1, 1), 1); err == nil {
			t.Error("the secrets of another job were sealed for one of the thief's")
		}
	})
}

func TestWhoIsAskedCannotAnswerWithSecretsOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		giver, late := w.peer("giver"), w.peer("late")
		j := w.job(giver, "job", password)
		w.granted[taskstate.Task("job", 1, 1)] = "late"
		w.job(giver, "job", map[string][]byte{"PW": []byte("another")}) // what the giver says now
		defer giver.Serve()()
		if err := late.ask(t.Context(), j, taskstate.Task("job", 1, 1), 1); err == nil || !strings.Contains(err.Error(), "not what was asked for") {
			t.Errorf("%v", err)
		}
	})
}

func TestTheSameValuesAreNoUpdateAndOthersAre(t *testing.T) {
	w := newWorld(t)
	giver, other := w.peer("giver"), w.peer("other")
	w.know("other", other)
	j := w.job(giver, "job", password)
	for _, p := range []*peer{giver, other} {
		same, err := p.Update(t.Context(), j, map[string][]byte{"PW": []byte("hunter2")})
		if err != nil || !bytes.Equal(same.Digest, j.Secrets.Digest) || same.By != p.cfg.Self {
			t.Errorf("the same at %s: %+v, %v", p.cfg.Self, same, err)
		}
		changed, err := p.Update(t.Context(), j, map[string][]byte{"PW": []byte("hunter3")})
		if err != nil || bytes.Equal(changed.Digest, j.Secrets.Digest) {
			t.Errorf("another value at %s: %v", p.cfg.Self, err)
		}
	}
	if none, err := giver.Update(t.Context(), j, nil); err != nil || none != nil {
		t.Errorf("an update without secrets has %+v, %v", none, err)
	}
}

func TestWhoOrdersInThePlaceOfAnotherAnswersForTheSecretsIfItsPeerCanOpenThem(t *testing.T) {
	w := newWorld(t)
	giver, other, stranger := w.peer("giver"), w.peer("other"), w.peer("stranger")
	w.know("other", other)
	j := w.job(giver, "job", password)
	own, err := other.Own(t.Context(), j)
	if err != nil || own.By != "other" || !bytes.Equal(own.Digest, j.Secrets.Digest) {
		t.Fatalf("%+v, %v", own, err)
	}
	scaled := *j
	scaled.Secrets, scaled.Order = own, &taskstate.Order{By: "other"}
	if got, err := other.Values(t.Context(), launch(&scaled)); err != nil || !maps.EqualFunc(got, password, bytes.Equal) {
		t.Errorf("%q, %v", got, err)
	}
	if own, err := stranger.Own(t.Context(), j); err == nil || !strings.Contains(err.Error(), "type the same there") {
		t.Errorf("a peer that cannot open them: %+v, %v", own, err)
	}
}

func TestWhatCannotBeKeptSecretIsRefused(t *testing.T) {
	many := map[string][]byte{}
	for i := range taskstate.MaxSecrets + 1 {
		many["S"+strings.Repeat("x", i)] = []byte("v")
	}
	for want, values := range map[string]map[string][]byte{
		"at most 32":              many,
		"its name is that of":     {"../x": []byte("v")},
		"it is empty":             {"PW": nil},
		"65537 bytes together":    {"PW": make([]byte, taskstate.MaxSecretBytes+1)},
		"not beginning with a di": {"1": []byte("v")},
	} {
		if err := Check(values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
	if err := Check(map[string][]byte{"PW": make([]byte, taskstate.MaxSecretBytes)}); err != nil {
		t.Error(err)
	}
	w := newWorld(t)
	giver := w.peer("giver")
	full := map[string][]byte{}
	for i := range taskstate.MaxSecrets {
		full[strings.Repeat("x", taskstate.MaxSecretName-i)] = make([]byte, taskstate.MaxSecretBytes/taskstate.MaxSecrets)
	}
	if _, err := giver.Seal(t.Context(), &taskstate.Job{ID: "job"}, full); err != nil {
		t.Errorf("as much as is allowed: %v", err)
	}
}
