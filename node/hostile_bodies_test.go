package node

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// Words that are in all of a job that others are not to know.
const (
	covert  = "covert-5309"
	ownWord = "guests-4471"
)

// covertJob runs where it says, and has a word wherever it can.
func covertJob(name, where, covert string) taskstate.Job {
	j := shellJob(name, 2, "true "+covert+"-command")
	j.Run.Process.Env = map[string]string{strings.ToUpper(strings.ReplaceAll(covert, "-", "_")): covert + "-value"}
	j.Each = []string{covert + "-item-1", covert + "-item-2"}
	j.Constraints = []string{"peer.name == " + where}
	return j
}

// Attack (i): a peer that may run and hand in tasks looks at all it is given, in its data folder
// and at its API, for what somebody else's job runs.
func TestAGuestLearnsNothingOfWhatOthersJobsRun(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	one := all[0]
	guest := alive(t, Config{Name: "guest", Join: one.ticket(api.TicketRequest{Expires: 600, Roles: []string{"worker", "submit"}}).Ticket})
	guest.sees("one", "two", "guest")

	var told []byte // all that the guest's API says
	tell := func(v any, err error) {
		if err != nil {
			v = err.Error()
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, b...)
	}
	go func() { // ends with the test
		_ = guest.Watch(t.Context(), "", func(api.Event) error { return nil })
	}()
	id := one.submit(covertJob("covert", "one", covert))
	service := covertJob("web", "two", covert)
	service.Type, service.Each, service.Restart = taskstate.ServiceJob, nil, taskstate.DefaultRestart(taskstate.ServiceJob)
	web := one.submit(service)
	if _, err := one.Backend().Scale(timed(t), web, api.Scale{Count: 1}); err != nil {
		t.Fatal(err)
	}
	one.outcome(id)
	own := guest.submit(covertJob("own", "nowhere", ownWord))
	applied := one.replica.Applied()
	eventually(t, "the guest has them", func() (bool, string) { return guest.replica.Applied() >= applied, "" })

	for _, word := range []string{id, web} {
		job, err := guest.Job(timed(t), word)
		if err != nil || job.Job.Spec == nil || !strings.Contains(job.Job.Spec.Line(), "known to one") {
			t.Errorf("job %s is shown as %+v (%v)", word, job.Job.Spec, err)
		}
		tell(job, err)
		_, err = guest.JobFile(timed(t), word)
		wants(t, err, api.Refused, "known to one", "ask there")
		tell(nil, err)
		story, err := guest.Explain(timed(t), word)
		if err != nil || story.Spec == nil || !strings.Contains(story.Spec.Sentence(), "known to one") {
			t.Errorf("the story of %s has %+v (%v)", word, story.Spec, err)
		}
		tell(story, err)
		tell(guest.Tasks(timed(t), word))
		tell(nil, guest.Logs(timed(t), word, api.LogQuery{}, func(c api.LogChunk) error { tell(c, nil); return nil }))
	}
	_, err := guest.Backend().Scale(timed(t), web, api.Scale{Count: 2})
	wants(t, err, api.Refused, "known to one")
	tell(guest.Jobs(timed(t)))
	tell(guest.Peers(timed(t)))
	var metrics bytes.Buffer
	tell(nil, guest.Backend().Metrics(timed(t), &metrics))
	told = append(told, metrics.Bytes()...)
	if i := bytes.Index(bytes.ReplaceAll(bytes.ToLower(told), []byte("_"), []byte("-")), []byte(covert)); i >= 0 {
		t.Errorf("its API says …%s…", told[max(0, i-200):min(len(told), i+100)])
	}
	if job, err := guest.Job(timed(t), own); err != nil || !strings.Contains(job.Job.Spec.Line(), ownWord) {
		t.Errorf("its own job is shown as %+v (%v)", job.Job.Spec, err)
	}
	if job, err := all[1].Job(timed(t), own); err != nil || !strings.Contains(job.Job.Spec.Line(), ownWord) {
		t.Errorf("an admin is shown the guest's job as %+v (%v)", job.Job.Spec, err)
	}
	guest.replica.Read(func(s *ledger.State) {
		if lacking := ledger.Lacking(s); len(lacking) != 2 {
			t.Errorf("it lacks %v", lacking)
		}
	})
	if _, err := guest.Backend().Cancel(timed(t), own); err != nil {
		t.Fatal(err)
	}
	if err := guest.stop(); err != nil { // its copy of the ledger goes to disk
		t.Fatal(err)
	}
	found := map[string][]string{}
	err = filepath.WalkDir(guest.cfg.Data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		for _, word := range []string{covert, "COVERT_5309", ownWord} {
			if bytes.Contains(b, []byte(word)) {
				found[word] = append(found[word], path)
			}
		}
		return err
	})
	if err != nil || len(found[covert])+len(found["COVERT_5309"]) > 0 || len(found[ownWord]) == 0 {
		t.Errorf("its data folder has %v (%v)", found, err)
	}
}
