package testnet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
	"github.com/coveyproject/covey/testnet"
)

// newer builds this program as one that reads one dialect more: it has a field more in a frame, a
// command more in the ledger, and a field more in its snapshots.
func newer(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "peer")
	if out, err := exec.Command("go", "build", "-tags", "nextdialect", "-o", path, "github.com/coveyproject/covey/cmd/peer").CombinedOutput(); err != nil {
		t.Fatalf("build the newer program: %v\n%s", err, out)
	}
	return path
}

func TestAClusterIsUpgradedPeerByPeerUnderLoadAndSpeaksTheNewDialectWhenAllReadIt(t *testing.T) {
	long.Test(t)
	old, next := exe(t), newer(t)
	net := start(t, 3)
	release := filepath.Join(t.TempDir(), "release")
	tasks := make([]string, 3)
	for i := range tasks {
		tasks[i] = submit(t, net, i+1, lasting(i+1, release)).ID
		runs(t, net, i+1, tasks[i])
	}
	work := load(t, net)

	net.Install(next)
	for k := 1; k <= 3; k++ {
		work.enough(20)
		if err := net.Halt(timed(t), k); err != nil {
			t.Fatal(err)
		}
		if err := net.Revive(timed(t), k); err != nil {
			t.Fatal(err)
		}
		ready(t, net)
		for i, id := range tasks {
			runs(t, net, i+1, id)
		}
		work.enough(20)
		if k < 3 {
			_, err := note(t, net.Data(k), "too early")
			wants(t, err, api.Conflict, "newer version", "p3")
		}
		if k == 2 {
			underOthers(t, net, old, next)
			runs(t, net, 3, tasks[2])
			work.enough(20)
		}
	}
	eventually(t, "the cluster speaks the new dialect", func() (bool, string) {
		said, err := note(t, net.Data(1), "all read it")
		return err == nil && said == "all read it", fmt.Sprint(said, err)
	})
	work.enough(20)
	follow(t, net, "all read it")

	ticket, err := net.Client(2).Invite(timed(t), api.TicketRequest{Expires: 600, Uses: 0})
	if err != nil {
		t.Fatal(err)
	}
	refusedNewcomer(t, old, ticket.Ticket)
	newcomer(t, next, ticket.Ticket, "all read it")
	refusedReturn(t, net, old, next)
	work.enough(20)

	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, id := range tasks {
		ends(t, net, 1, id)
		if row := only(t, net, 1, id); row.Attempt != 1 || row.PeerName != fmt.Sprint("p", i+1) {
			t.Errorf("the task did not live through it: %+v", row)
		}
	}
	for _, id := range work.stop() {
		ends(t, net, 2, id)
	}
	follow(t, net, "all read it")
}

// underOthers restarts peer 3, the last old one, until a new one coordinates. On a busy machine it
// may be elected again.
func underOthers(t *testing.T, n *testnet.Net, old, next string) {
	t.Helper()
	n.Install(old)
	defer n.Install(next)
	for range 5 {
		if err := n.Halt(timed(t), 3); err != nil {
			t.Fatal(err)
		}
		if err := n.Revive(timed(t), 3); err != nil {
			t.Fatal(err)
		}
		ready(t, n)
		if boss, err := n.Coordinator(timed(t), 1); err == nil && boss != 3 {
			return
		}
	}
	t.Fatal("no new peer comes to coordinate")
}

// lasting is a job of one task on one peer, which goes on until there is a file.
func lasting(k int, release string) api.Submit {
	j := taskstate.Job{Name: fmt.Sprint("lasting", k), Count: 1, Constraints: []string{fmt.Sprintf("peer.name == p%d", k)}}
	j.Run.Process = &taskstate.Process{Command: []string{"/bin/sh", "-c", `while [ ! -e "$0" ]; do sleep 0.2; done`, release}}
	jobfile.Defaults(&j)
	j.Unreachable.ReplaceAfter = time.Hour.Milliseconds() // a machine that is busy with tests may restart slowly
	return api.Submit{Job: j}
}

// only is the one task of a job.
func only(t *testing.T, net *testnet.Net, k int, id string) api.Task {
	t.Helper()
	a, err := net.Client(k).AllTasks(timed(t), id)
	if err != nil || len(a.Tasks) != 1 {
		t.Fatalf("the tasks of %s, which has one: %+v, %v", id, a.Tasks, err)
	}
	return a.Tasks[0]
}

// runs waits until a job's only task runs on peer k, in its first attempt.
func runs(t *testing.T, net *testnet.Net, k int, id string) {
	t.Helper()
	eventually(t, fmt.Sprintf("job %s runs on peer %d", id, k), func() (bool, string) {
		row := only(t, net, k, id)
		return row.State == "running" && row.Attempt == 1 && row.Unreachable == nil, fmt.Sprintf("%+v", row)
	})
}

// loading submits jobs to whoever is there, one after the other.
type loading struct {
	t    *testing.T
	end  context.CancelFunc
	over sync.WaitGroup

	mu       sync.Mutex
	accepted []string
}

func load(t *testing.T, net *testnet.Net) *loading {
	ctx, end := context.WithCancel(t.Context())
	l := &loading{t: t, end: end}
	l.over.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			one, cancel := context.WithTimeout(ctx, 10*time.Second)
			got, err := net.Client(i%3+1).Submit(one, noops(fmt.Sprint("load", i), 3))
			cancel()
			if err == nil {
				l.mu.Lock()
				l.accepted = append(l.accepted, got.ID)
				l.mu.Unlock()
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() { l.stop() })
	return l
}

// enough waits until so many more jobs were accepted.
func (l *loading) enough(more int) {
	l.t.Helper()
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.accepted)
	}
	until := count() + more
	eventually(l.t, "jobs are accepted", func() (bool, string) { return count() >= until, fmt.Sprint(count(), " of ", until) })
}

// stop ends the load and tells which jobs were accepted, or held for the coordinator.
func (l *loading) stop() []string {
	l.end()
	l.over.Wait()
	return l.accepted
}

// note has the cluster keep a line of text, which only the new dialect can say, and tells which one
// the peer with this data folder knows. An empty one only asks.
func note(t *testing.T, data, text string) (string, error) {
	t.Helper()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", api.SocketPath(data))
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: patience}
	body, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		t.Fatal(err)
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://peer/v1/note", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	token, _ := os.ReadFile(api.TokenPath(data)) // none: refused
	q.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	r, err := client.Do(q)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	var answer struct {
		Text  string     `json:"text"`
		Error *api.Error `json:"error"`
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if answer.Error != nil {
		return "", answer.Error
	}
	return answer.Text, nil
}

// follow waits until every peer has applied what was decided last, and nobody has met what it
// could not read.
func follow(t *testing.T, n *testnet.Net, text string) {
	t.Helper()
	last := submit(t, n, 1, noops("newest", 1)).ID
	for k := 1; k <= 3; k++ {
		ends(t, n, k, last)
		if said, err := note(t, n.Data(k), ""); err != nil || said != text {
			t.Errorf("peer %d knows the note %q: %v", k, said, err)
		}
		st, err := n.Client(k).Status(timed(t))
		if err != nil || len(st.Troubles) > 0 {
			t.Errorf("peer %d: %v, %v", k, st.Troubles, err)
		}
	}
}

const peerLog = "peer.log"

func refusedNewcomer(t *testing.T, old, ticket string) {
	t.Helper()
	cmd := exec.CommandContext(timed(t), old, "--data", t.TempDir(), "up", "--no-mdns", "--name", "late", "--listen", "127.0.0.1:0", "--join", ticket)
	out, err := cmd.CombinedOutput()
	for _, part := range []string{"too old", "install", "late reads dialect 2", "speaks 3"} {
		if err == nil || !strings.Contains(string(out), part) {
			t.Errorf("a newcomer of the old version is to be told %q: %v\n%s", part, err, out)
		}
	}
}

// newcomer comes in with the new program, gets the whole ledger, and leaves.
func newcomer(t *testing.T, next, ticket, text string) {
	t.Helper()
	data := t.TempDir()
	cmd := exec.CommandContext(timed(t), next, "--data", data, "up", "--no-mdns", "--name", "p4", "--listen", "127.0.0.1:0", "--join", ticket)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the newcomer knows the note", func() (bool, string) {
		said, err := note(t, data, "")
		return err == nil && said == text, fmt.Sprint(said, err)
	})
	at := client.Of(data)
	defer at.Close()
	eventually(t, "the newcomer leaves again", func() (bool, string) {
		err := at.Leave(timed(t))
		if e := api.AsError(err); e != nil && e.Code == api.NoCoordinator { // one is being elected
			return false, err.Error()
		}
		if err != nil {
			t.Error(err)
		}
		return true, ""
	})
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, out.String())
	}
}

// refusedReturn has peer 3 come back with the program from before, and then with the right one.
func refusedReturn(t *testing.T, n *testnet.Net, old, next string) {
	t.Helper()
	log := filepath.Join(n.Data(3), peerLog)
	before, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(before, []byte("cannot be read")) {
		t.Errorf("peer 3 met what it cannot read:\n%s", before)
	}
	if err := n.Halt(timed(t), 3); err != nil {
		t.Fatal(err)
	}
	n.Install(old)
	_ = n.Revive(timed(t), 3) // it may be refused before it can be asked, or just after
	eventually(t, "the old program is told what to install", func() (bool, string) {
		if st, err := n.Client(3).Status(timed(t)); err == nil && strings.Contains(fmt.Sprint(st.Troubles), "install") {
			return true, ""
		}
		said, err := os.ReadFile(log)
		return err == nil && !n.Running(3) && bytes.Contains(said[len(before):], []byte("install")), string(said[min(len(said), len(before)):])
	})
	if n.Running(3) {
		if err := n.Halt(timed(t), 3); err != nil {
			t.Fatal(err)
		}
	}
	n.Install(next)
	if err := n.Revive(timed(t), 3); err != nil {
		t.Fatal(err)
	}
	ready(t, n)
}
