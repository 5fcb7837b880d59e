package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/tree"
)

// house is a peer with one job, whose tasks left files.
type house struct {
	api.Backend
	job   api.Job
	tasks []api.Task
	after []api.Task // how the tasks are when the job has ended, if it has not

	mu    sync.Mutex
	blobs map[piece.Root][]byte
	asked []int // blobs, by request
	sent  map[piece.Root]int
	first api.Submit
}

const jobID = "abcdefghij"

func newHouse() *house {
	at := time.Unix(1, 0)
	return &house{
		job:   api.Job{ID: jobID, State: "complete", Ended: &at, ExitCode: new(int), Spec: &api.Spec{Outputs: []string{"*"}}},
		blobs: map[piece.Root][]byte{}, sent: map[piece.Root]int{},
	}
}

func (h *house) keep(b []byte) piece.Root {
	h.blobs[piece.Sum(b)] = b
	return piece.Sum(b)
}

// task adds one that left files, in a state; no files: it left none.
func (h *house) task(state string, files map[string]string) {
	n := len(h.tasks) + 1
	t := api.Task{ID: fmt.Sprintf("%s.%d.1", jobID, n), Job: jobID, Slot: n, Attempt: 1, State: state, PeerName: "beta"}
	h.job.Count = n
	if len(files) > 0 {
		var list bytes.Buffer
		w, total := tree.NewWriter(&list), int64(0)
		dirs := map[string]bool{}
		for _, path := range slices.SortedFunc(maps.Keys(files), inTreeOrder) {
			for i, c := range path {
				if dir := path[:i]; c == '/' && !dirs[dir] {
					dirs[dir] = true
					_ = w.Add(tree.Entry{Path: dir, Kind: tree.Dir})
				}
			}
			data := []byte(files[path])
			total += int64(len(data))
			if err := w.Add(tree.Entry{Path: path, Kind: tree.File, Size: int64(len(data)), Root: h.keep(data)}); err != nil {
				panic(err)
			}
		}
		if _, err := w.Close(); err != nil {
			panic(err)
		}
		ref := tree.Ref{Root: h.keep(list.Bytes()), Dir: true}
		t.Output = &api.Output{Ref: &ref, Files: len(files), Bytes: total, Copies: 1, Keep: 1, Keepers: []api.Keeper{{Peer: "b", Name: "beta"}}, Partial: state != "complete"}
	}
	h.tasks = append(h.tasks, t)
}

func inTreeOrder(a, b string) int {
	r := strings.NewReplacer("/", "\x00")
	return strings.Compare(r.Replace(a), r.Replace(b))
}

func (h *house) Submit(_ context.Context, s api.Submit) (api.Submitted, error) {
	h.first = s
	return api.Submitted{ID: jobID}, nil
}

func (h *house) Job(_ context.Context, id string) (api.JobAnswer, error) {
	if id != jobID && id != "last" {
		return api.JobAnswer{}, api.Errorf(api.NotFound, "no job %s", id)
	}
	return api.JobAnswer{Job: h.job}, nil
}

func (h *house) Tasks(context.Context, string) (api.Tasks, error) {
	return api.Tasks{Tasks: h.tasks}, nil
}

func (h *house) Peers(context.Context) (api.Peers, error) {
	return api.Peers{Peers: []api.Peer{{ID: "b", Name: "beta", Standing: "ready"}, {ID: "g", Name: "gamma", Standing: "unreachable"}, {ID: "n", Name: "gamma", Standing: "ready"}}}, nil
}

func (h *house) Logs(context.Context, string, api.LogQuery, func(api.LogChunk) error) error {
	return nil
}

func (h *house) Follow(_ context.Context, _ string, _ bool, send func(api.Progress) error) error {
	if err := send(api.Progress{Job: h.job, Tasks: h.tasks}); err != nil || h.job.Over() {
		return err
	}
	at := time.Unix(1, 0)
	h.tasks, h.job.Ended, h.job.ExitCode, h.job.State = h.after, &at, new(int), "complete"
	return send(api.Progress{Job: h.job, Tasks: h.tasks})
}

func (h *house) GetFiles(_ context.Context, q api.GetFiles, out *api.FileWriter) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, len(q.Blobs))
	n := int64(0)
	for _, b := range q.Blobs {
		data, ok := h.blobs[b.Blob]
		if !ok {
			return api.Errorf(api.NoCoordinator, "no reachable peer has it")
		}
		if b.Size >= 0 && b.Size != int64(len(data)) {
			return api.Errorf(api.Failed, "it has %d bytes, not %d", len(data), b.Size)
		}
		h.sent[b.Blob]++
		n += int64(len(data))
		if err := errors.Join(out.Blob(b.Blob, int64(len(data))), out.Bytes(data)); err != nil {
			return err
		}
	}
	return out.Fetching(api.Fetching{Bytes: n, From: []api.Source{{Peer: "b", Name: "beta", Bytes: n}}})
}

// peer runs a command line against the house.
func (h *house) peer(t *testing.T, words ...string) (code int, out, talk string) {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	data := t.TempDir()
	l, err := api.Listen(api.SocketPath(data))
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: api.NewHandler(h, nil)}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = srv.Serve(l) }() // ends with Close
	defer func() { srv.Close(); <-ended }()
	var o, e bytes.Buffer
	code = Main(t.Context(), append([]string{"--data", data}, words...), Streams{In: strings.NewReader(""), Out: &o, Err: &e})
	return code, o.String(), e.String()
}

// filesIn is what is below a folder, by path.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		all[filepath.ToSlash(rel)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func wantFiles(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	if got := filesIn(t, dir); !maps.Equal(got, want) {
		t.Errorf("there is %q, want %q", got, want)
	}
}

func TestTheFilesOfOneTaskComeIntoTheFolderAndOfSeveralIntoOneEach(t *testing.T) {
	h := newHouse()
	h.task("complete", map[string]string{"a.png": "A1", "sub/b": "B1"})
	to := t.TempDir()
	if code, _, talk := h.peer(t, "get", "last", "--to", to); code != 0 || !strings.Contains(talk, "1 task, 4B in 2 files") || !strings.Contains(talk, "from beta") {
		t.Error(code, talk)
	}
	wantFiles(t, to, map[string]string{"a.png": "A1", "sub/b": "B1"})
	h.task("complete", map[string]string{"a.png": "A2"})
	h.task("complete", nil)
	to = t.TempDir()
	if code, _, talk := h.peer(t, "get", jobID, "--to", to); code != 0 || !strings.Contains(talk, "3 tasks, 6B in 3 files") {
		t.Error(code, talk)
	}
	wantFiles(t, to, map[string]string{"1/a.png": "A1", "1/sub/b": "B1", "2/a.png": "A2"})
	one := t.TempDir()
	if code, _, talk := h.peer(t, "get", jobID+".2", "--to", one); code != 0 {
		t.Error(code, talk)
	}
	wantFiles(t, one, map[string]string{"a.png": "A2"})
	// Asked again, only lists are looked at; one that differs stays, and nothing else is written.
	clear(h.sent)
	_ = os.Remove(filepath.Join(to, "1", "sub", "b"))
	if code, _, talk := h.peer(t, "get", jobID, "--to", to); code != 0 || !strings.Contains(talk, "2 there already") || h.sent[piece.Sum([]byte("A2"))] > 0 || h.sent[piece.Sum([]byte("B1"))] != 1 {
		t.Error(code, talk, h.sent)
	}
	_ = os.Remove(filepath.Join(to, "1", "sub", "b"))
	if err := os.WriteFile(filepath.Join(to, "2", "a.png"), []byte("mine"), 0o666); err != nil {
		t.Fatal(err)
	}
	if code, _, talk := h.peer(t, "get", jobID, "--to", to); code != 6 || !strings.Contains(talk, `"2/a.png" exists already, and differs`) || !strings.Contains(talk, "--force") {
		t.Error(code, talk)
	}
	wantFiles(t, to, map[string]string{"1/a.png": "A1", "2/a.png": "mine"})
	if code, _, talk := h.peer(t, "get", jobID, "--to", to, "--force"); code != 0 {
		t.Error(code, talk)
	}
	wantFiles(t, to, map[string]string{"1/a.png": "A1", "1/sub/b": "B1", "2/a.png": "A2"})
}

func TestAllFilesIntoOneFolderAreRefusedWithBothTasksWhereTwoDiffer(t *testing.T) {
	h := newHouse()
	h.task("complete", map[string]string{"x/a": "1", "b": "same"})
	h.task("complete", map[string]string{"x/c": "2", "b": "same", "x.d": "3"})
	to := t.TempDir()
	if code, _, talk := h.peer(t, "get", "last", "--flat", "--to", to); code != 0 {
		t.Error(code, talk)
	}
	wantFiles(t, to, map[string]string{"x/a": "1", "b": "same", "x/c": "2", "x.d": "3"})
	for _, other := range []map[string]string{{"b": "other"}, {"b/x": "same"}} {
		h.tasks = h.tasks[:2]
		h.task("complete", other)
		to = t.TempDir()
		code, _, talk := h.peer(t, "get", "last", "--flat", "--to", to)
		if code != 6 || !strings.Contains(talk, `"b" is of both task abcdefghij.1.1 and task abcdefghij.3.1`) {
			t.Error(code, talk)
		}
		wantFiles(t, to, map[string]string{})
	}
}

func TestWhatCannotBeBroughtIsSaidWithItsCode(t *testing.T) {
	h := newHouse()
	h.task("complete", map[string]string{"a": "1"})
	h.task("failed", map[string]string{"half": "2"})
	h.task("failed", nil)
	h.task("running", nil)
	h.task("complete", nil)
	three := 3
	h.tasks[1].ExitCode = &three
	for _, x := range []struct {
		words string
		code  int
		says  string
		files map[string]string
	}{
		{jobID, 1, "1 task has not ended yet, for which --wait waits; 1 task has not ended well, and --partial brings what it wrote; 1 task has not ended well and left no files", map[string]string{"1/a": "1"}},
		{jobID + " --partial", 1, "1 task has not ended yet", map[string]string{"1/a": "1", "2/half": "2"}},
		{jobID + ".2", 1, "failed (exit 3), so what it wrote may be half of it; --partial brings it: 1B in 1 file", nil},
		{jobID + ".2 --partial", 0, "1 task, 1B", map[string]string{"half": "2"}},
		{jobID + ".3 --partial", 1, "left no files", nil},
		{jobID + ".4", 1, "has not ended: it is running; --wait", nil},
		{jobID + ".5", 0, "1 task, 0B in 0 files", nil},
		{jobID + ".6", 3, "has no task 6; it has 5", nil},
		{jobID + ".1.2", 3, "only what the last attempt left is kept, and that is abcdefghij.1.1", nil},
		{jobID + ".x", 2, "else JOB.SLOT", nil},
		{jobID + ".01", 2, "else JOB.SLOT", nil},
		{"other", 3, "no job other", nil},
	} {
		to := t.TempDir()
		code, _, talk := h.peer(t, append(append([]string{"get"}, strings.Fields(x.words)...), "--to", to)...)
		if code != x.code || !strings.Contains(talk, x.says) {
			t.Errorf("%s: exit %d, want %d: %s", x.words, code, x.code, talk)
		}
		if x.files == nil {
			x.files = map[string]string{}
		}
		wantFiles(t, to, x.files)
	}
	if code, _, talk := h.peer(t, "get", jobID, "--tar"); code != 1 || strings.Contains(talk, "half a tar") {
		t.Error("half a tar:", code, talk)
	}
	delete(h.blobs, piece.Sum([]byte("1")))
	if code, _, talk := h.peer(t, "get", jobID+".1", "--to", t.TempDir()); code != 4 || !strings.Contains(talk, "no reachable peer has it; kept by beta") {
		t.Error(code, talk)
	}
	h.job.Spec.Outputs = nil
	if code, _, talk := h.peer(t, "get", jobID); code != 1 || !strings.Contains(talk, "keeps no files") || !strings.Contains(talk, "--out") {
		t.Error(code, talk)
	}
}

func TestWhatNobodyHasWhoIsHereIsSaidAndTheRestIsBrought(t *testing.T) {
	h := newHouse()
	h.task("complete", map[string]string{"a": "1"})
	h.task("complete", map[string]string{"a": "2"})
	h.tasks[1].Output.Keepers = []api.Keeper{{Peer: "g", Name: "gamma"}}
	delete(h.blobs, h.tasks[1].Output.Ref.Root)
	to := t.TempDir()
	code, _, talk := h.peer(t, "get", jobID, "--to", to)
	if code != 4 || !strings.Contains(talk, "what 1 task left is kept by gamma, and none of them is here") {
		t.Error(code, talk)
	}
	wantFiles(t, to, map[string]string{"1/a": "1"})
	for _, words := range []string{".2", ".2 --list", ".2 --tar", ".2 --flat", " --list", " --tar"} {
		code, _, talk := h.peer(t, append([]string{"get"}, strings.Fields(jobID+words)...)...)
		if code != 4 || !strings.Contains(talk, "no reachable peer has it; kept by") || !strings.Contains(talk, "gamma") {
			t.Error(words, code, talk)
		}
	}
}

func TestFilesAreListedAndComeAsATar(t *testing.T) {
	h := newHouse()
	h.task("complete", map[string]string{"a": "1", "d/e": "", "d/f": "2"})
	h.task("complete", map[string]string{"a": "3"})
	_, out, _ := h.peer(t, "get", jobID, "--list")
	for _, line := range []string{"1/a\n", "1/d/\n", "1/d/f\n", "2/a\n"} {
		if !strings.Contains(out, "  "+line) {
			t.Errorf("no %q in %s", line, out)
		}
	}
	_, out, _ = h.peer(t, "get", jobID+".2", "--list", "-o", "json")
	var list struct {
		Job     string
		Entries []row
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil || list.Job != jobID || len(list.Entries) != 1 || list.Entries[0].Path != "a" || list.Entries[0].Size != 1 {
		t.Error(err, out)
	}
	code, out, talk := h.peer(t, "get", jobID, "--tar")
	got, r := map[string]string{}, tar.NewReader(strings.NewReader(out))
	for {
		m, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(code, err, talk)
		}
		b, _ := io.ReadAll(r)
		if m.Typeflag == tar.TypeReg {
			got[m.Name] = string(b)
		}
	}
	if want := map[string]string{"1/a": "1", "1/d/e": "", "1/d/f": "2", "2/a": "3"}; !maps.Equal(got, want) {
		t.Error(got)
	}
}

func TestManySmallFilesAreAskedForByTheThousand(t *testing.T) {
	long.Test(t)
	h, files := newHouse(), map[string]string{}
	for i := range api.MaxBlobs + 10 {
		files[fmt.Sprintf("d%d/%05d", i%7, i)] = fmt.Sprint(i % 100)
	}
	files["empty"] = ""
	h.task("complete", files)
	to := t.TempDir()
	code, _, talk := h.peer(t, "get", "last", "--to", to)
	if code != 0 || !slices.Equal(h.asked, []int{1, api.MaxBlobs, 10}) {
		t.Error(code, talk, h.asked)
	}
	wantFiles(t, to, files)
}

func TestFilesComeAsTasksEndAndNothingIsAskedForTwice(t *testing.T) {
	for _, words := range [][]string{{"get", jobID, "--wait"}, {"run", "--array", "1-3", "--out", "*", "--", "true"}} {
		h := newHouse()
		h.task("complete", map[string]string{"a": "1"})
		h.task("running", nil)
		h.task("running", nil)
		before := h.tasks
		h.tasks = slices.Clone(before[:1])
		h.task("complete", map[string]string{"b": "2"})
		h.task("complete", map[string]string{"c": "3"})
		h.after, h.tasks = h.tasks, before
		h.job.Ended, h.job.ExitCode, h.job.State = nil, nil, "running"
		to := t.TempDir()
		at := 1
		words = slices.Insert(words, at, "--to", to)
		code, _, talk := h.peer(t, words...)
		if code != 0 {
			t.Error(words, code, talk)
		}
		wantFiles(t, to, map[string]string{"1/a": "1", "2/b": "2", "3/c": "3"})
		for root, n := range h.sent {
			if n > 1 {
				t.Errorf("%s was asked for %d times", root, n)
			}
		}
	}
}

func TestRunIsOneHundredAndTwentyFiveIfFilesDoNotComeHomeAndTheOthersDo(t *testing.T) {
	h := newHouse()
	h.task("complete", map[string]string{"a": "1"})
	h.task("complete", map[string]string{"a": "2"})
	to := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(to, "1"), 0o777), os.WriteFile(filepath.Join(to, "1", "a"), []byte("mine"), 0o666)); err != nil {
		t.Fatal(err)
	}
	code, _, talk := h.peer(t, "run", "--array", "1-2", "--out", "*", "--keep", "3", "--to", to, "--", "true")
	if code != 125 || !strings.Contains(talk, "the files of task abcdefghij.1.1 are not all in "+to) || !strings.Contains(talk, "`peer get abcdefghij --to "+to+"`") && !strings.Contains(talk, "get abcdefghij --to "+to+"`") {
		t.Error(code, talk)
	}
	wantFiles(t, to, map[string]string{"1/a": "mine", "2/a": "2"})
	if o := h.first.Job.Outputs; o == nil || !slices.Equal(o.Globs, []string{"*"}) || o.Keep != 3 {
		t.Errorf("%+v", o)
	}
	h.job.ExitCode = new(int)
	*h.job.ExitCode = 1
	h.job.State = "failed"
	h.tasks[0].State, h.tasks[0].Output.Partial = "failed", true
	code, _, talk = h.peer(t, "run", "--array", "1-2", "--out", "*", "--to", to, "--", "true")
	if code != 1 || !strings.Contains(talk, "--to "+to+" --partial` brings it") {
		t.Error(code, talk)
	}
	h.first = api.Submit{}
	file := filepath.Join(to, "2", "a")
	if code, _, talk := h.peer(t, "run", "--out", "*", "--to", file, "--", "true"); code != 125 || h.first.Job.Outputs != nil || !strings.Contains(talk, file+" is no folder") {
		t.Error(code, talk)
	}
}

func TestWhoDoesNotStayIsToldHowFilesComeHome(t *testing.T) {
	h := newHouse()
	h.task("running", nil)
	code, out, talk := h.peer(t, "run", "--detach", "--out", "*", "--", "true")
	if code != 0 || out != jobID+"\n" || !strings.Contains(talk, "get "+jobID+" --wait` brings its files") {
		t.Error(code, out, talk)
	}
	for words, says := range map[string]string{
		"run --detach --out x --to y -- true": "--detach does not wait for files",
		"run --to y -- true":                  "--to says where files are brought; say which with --out GLOB",
		"run --keep 3 -- true":                "--keep says how many copies there are of files; say of which with --out GLOB",
		"run --out ../x -- true":              `outputs[0]: expected a path below the task's own folder`,
		"run --out x --keep 17 -- true":       "keep: expected 0 to 16, got 17",
	} {
		if code, _, talk := h.peer(t, strings.Fields(words)...); code != 125 || !strings.Contains(talk, says) {
			t.Errorf("%s: %d %s", words, code, talk)
		}
	}
}
