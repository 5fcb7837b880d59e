//go:build unix

package testnet

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
)

// twin answers as a peer would, with what a test puts into it.
type twin struct {
	proc *proc

	mu      sync.Mutex
	status  api.Status
	peers   api.Peers
	jobs    []api.Job
	logs    []api.LogChunk
	blocked [][]string // each time, whom it was told not to reach
	rate    int64      // it was told last
	dumb    bool       // every question is an error
}

// end makes its process one that has ended.
func (w *twin) end() { close(w.proc.gone) }

// twins are a testnet of n peers that are no processes.
func twins(t *testing.T, n int) (*Net, []*twin) {
	t.Helper()
	dir, err := os.MkdirTemp("", "twin")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	net := &Net{cfg: Config{Dir: dir, N: n}}
	var all []*twin
	for k := 1; k <= n; k++ {
		name := "p" + strconv.Itoa(k)
		path := filepath.Join(dir, name)
		none := &exec.Cmd{Process: &os.Process{Pid: -1}} // to be signalled by nobody
		w := &twin{proc: &proc{k: k, data: filepath.Join(dir, name+".data"), client: client.New(path), cmd: none, id: "id-" + name, gone: make(chan struct{})}}
		l, err := api.Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Handler: w}
		done := make(chan struct{})
		go func() { _ = s.Serve(l); close(done) }()
		t.Cleanup(func() { _ = s.Close(); <-done; w.proc.client.Close() })
		net.peers, all = append(net.peers, w.proc), append(all, w)
	}
	return net, all
}

func (w *twin) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dumb {
		rw.WriteHeader(http.StatusInternalServerError)
		return
	}
	say := json.NewEncoder(rw).Encode
	switch {
	case r.URL.Path == "/v1/status":
		_ = say(w.status)
	case r.URL.Path == "/v1/peers":
		_ = say(w.peers)
	case r.URL.Path == "/v1/jobs":
		_ = say(api.Jobs{Jobs: w.jobs})
	case r.URL.Path == "/v1/testnet/block":
		var b api.Block
		_ = json.NewDecoder(r.Body).Decode(&b)
		slices.Sort(b.Peers)
		w.blocked, w.rate = append(w.blocked, b.Peers), b.Rate
		_ = say(struct{}{})
	default: // a log
		for _, c := range w.logs {
			_ = say(c)
		}
	}
}
