//go:build unix

package testnet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
	"github.com/coveyproject/covey/testnet"
)

// patience bounds every wait: against hanging, not as a measure.
const patience = 90 * time.Second

// exe is the real program, built once (see TestMain).
func exe(t *testing.T) string {
	t.Helper()
	path := os.Getenv(exeEnv)
	if path == "" {
		t.Skip("no program to run: the tests need the go command to build it")
	}
	return path
}

const exeEnv = "COVEY_TESTNET_EXE"

// Simulated clusters make much that is soon gone: a rarer collection saves them a quarter of the
// processor's time. Peers that are processes have their own.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(withProgram(m.Run))
}

// withProgram builds the program, runs the tests and removes it.
func withProgram(run func() int) int {
	dir, err := os.MkdirTemp("", "covey-testnet-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if _, err := exec.LookPath("go"); err != nil {
		return run()
	}
	path := filepath.Join(dir, "peer")
	if out, err := exec.Command("go", "build", "-o", path, "github.com/coveyproject/covey/cmd/peer").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the program: %v\n%s", err, out)
		return 1
	}
	if err := os.Setenv(exeEnv, path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return run()
}

func timed(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// start runs n peers until the test ends.
func start(t *testing.T, n int) *testnet.Net {
	t.Helper()
	net, err := testnet.Start(timed(t), testnet.Config{Dir: t.TempDir(), N: n, Exe: exe(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(net.Quit)
	ready(t, net)
	return net
}

func ready(t *testing.T, net *testnet.Net) {
	t.Helper()
	if err := net.AwaitReady(timed(t)); err != nil {
		t.Fatal(err)
	}
}

func noops(name string, count int) api.Submit {
	j := taskstate.Job{Name: name, Count: count}
	j.Run.Noop = &taskstate.Noop{}
	jobfile.Defaults(&j)
	return api.Submit{Job: j}
}

func submit(t *testing.T, net *testnet.Net, k int, s api.Submit) api.Submitted {
	t.Helper()
	got, err := net.Client(k).Submit(timed(t), s)
	if err != nil {
		t.Fatalf("submit through peer %d: %v", k, err)
	}
	return got
}

// ends waits until peer k shows the end of a job, from wherever it hears of it.
func ends(t *testing.T, net *testnet.Net, k int, id string) {
	t.Helper()
	eventually(t, fmt.Sprintf("peer %d shows job %s complete", k, id), func() (bool, string) {
		a, err := net.Client(k).Job(timed(t), id)
		return err == nil && a.Job.State == "complete", fmt.Sprintf("%+v, %v", a.Job, err)
	})
}

func eventually(t *testing.T, what string, cond func() (bool, string)) {
	t.Helper()
	limit := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, why := cond()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s: not so after %s: %s", what, patience, why)
		}
	}
}

func wants(t *testing.T, err error, code api.Code, parts ...string) {
	t.Helper()
	var e *api.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("want an error of code %s, not %v", code, err)
	}
	for _, p := range parts {
		if !strings.Contains(e.Message, p) {
			t.Errorf("the error should say %q: %s", p, e.Message)
		}
	}
}

func TestAKilledPeerIsGoneAndComesBackOnAnotherPort(t *testing.T) {
	net := start(t, 3)
	eventually(t, "all three vote", func() (bool, string) { // while one takes its seat, two of three may be too few
		st, err := net.Client(1).Status(timed(t))
		return err == nil && len(st.Voters) == 3, fmt.Sprint(st.Voters, err)
	})
	id, before := net.ID(3), addrs(t, net, 3)
	if err := net.Kill(3); err != nil {
		t.Fatal(err)
	}
	if net.Running(3) {
		t.Fatal("a killed peer runs")
	}
	wants(t, net.Kill(3), api.Conflict, "does not run", "restart 3")
	ends(t, net, 2, submit(t, net, 2, noops("without-three", 10)).ID)
	if err := net.Restart(timed(t), 3); err != nil {
		t.Fatal(err)
	}
	ready(t, net)
	if net.ID(3) != id || addrs(t, net, 3) == before {
		t.Errorf("it was %s at %s and is %s at %s", id, before, net.ID(3), addrs(t, net, 3))
	}
	ends(t, net, 1, submit(t, net, 3, noops("through-three", 10)).ID)
	wants(t, net.Kill(4), api.NotFound, "1 to 3")
	wants(t, net.Restart(timed(t), 0), api.NotFound)
}

func addrs(t *testing.T, net *testnet.Net, k int) string {
	t.Helper()
	st, err := net.Client(k).Status(timed(t))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(st.Addrs, " ")
}

func TestAPeerKilledRightAfterItsFirstGuestJoinedIsFoundAgain(t *testing.T) {
	net, err := testnet.Start(timed(t), testnet.Config{Dir: t.TempDir(), N: 2, Exe: exe(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(net.Quit)
	if err := net.Restart(timed(t), 1); err != nil { // kill -9, and another port, which the guest cannot know
		t.Fatal(err)
	}
	ready(t, net)
}

func TestThePartitionedMinorityHoldsJobsAndTheMajorityGoesOn(t *testing.T) {
	long.Test(t)
	net := start(t, 5)
	eventually(t, "all five vote", func() (bool, string) {
		st, err := net.Client(1).Status(timed(t))
		return err == nil && len(st.Voters) == 5, fmt.Sprint(st.Voters, err)
	})
	boss, err := net.Coordinator(timed(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	// The coordinator is in the minority: the majority must elect another.
	minority, majority := []int{boss}, []int{}
	for k := 1; k <= 5; k++ {
		switch {
		case k == boss:
		case len(minority) < 2:
			minority = append(minority, k)
		default:
			majority = append(majority, k)
		}
	}
	if err := net.Partition(timed(t), [][]int{minority, majority}); err != nil {
		t.Fatal(err)
	}
	held := submit(t, net, minority[1], noops("held", 7))
	if !held.Held || !strings.Contains(held.Note, "No coordinator") {
		t.Fatalf("%+v", held)
	}
	var taken api.Submitted
	eventually(t, "the majority goes on", func() (bool, string) {
		taken = submit(t, net, majority[0], noops("taken", 7))
		return !taken.Held, "held"
	})
	ends(t, net, majority[2], taken.ID)
	if _, err := net.Client(majority[0]).Job(timed(t), held.ID); err == nil {
		t.Error("the majority knows a job that only the minority has")
	}
	if _, err := net.Client(minority[1]).Job(timed(t), taken.ID); err == nil {
		t.Error("the minority knows a job that only the majority has: the cut leaks")
	}
	if err := net.Heal(timed(t)); err != nil {
		t.Fatal(err)
	}
	ready(t, net)
	for k := 1; k <= 5; k++ {
		ends(t, net, k, held.ID)
		ends(t, net, k, taken.ID)
	}
	wants(t, net.Partition(timed(t), [][]int{{1, 9}}), api.NotFound, "no peer 9")
}

func TestTheControlSocketObeysAndExplains(t *testing.T) {
	dir := t.TempDir()
	net, err := testnet.Start(timed(t), testnet.Config{Dir: dir, N: 2, Exe: exe(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(net.Quit)
	ready(t, net)
	_, err = testnet.Do(timed(t), dir, testnet.Order{Op: "status"})
	wants(t, err, api.NoCoordinator, "no testnet runs in", "testnet up")

	served := make(chan error, 1)
	go func() { served <- net.Serve(timed(t), func() {}) }() // ends with the order `down`
	eventually(t, "the testnet answers", func() (bool, string) {
		a, err := testnet.Do(timed(t), dir, testnet.Order{Op: "status"})
		return err == nil && len(a.Peers) == 2 && a.Peers[1].Running && a.Peers[1].PID > 0 && a.Peers[1].ID == net.ID(2), fmt.Sprint(a, err)
	})
	do := func(o testnet.Order) testnet.Answer {
		t.Helper()
		a, err := testnet.Do(timed(t), dir, o)
		if err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		return a
	}
	if a := do(testnet.Order{Op: "partition", Groups: [][]int{{1}, {2}}}); a.Peers[0].Group != 1 || a.Peers[1].Group != 2 {
		t.Errorf("%+v", a)
	}
	if a := do(testnet.Order{Op: "heal"}); a.Peers[0].Group != 0 {
		t.Errorf("%+v", a)
	}
	if a := do(testnet.Order{Op: "kill", Peer: 2}); a.Peers[1].Running || a.Peers[1].PID != 0 {
		t.Errorf("%+v", a)
	}
	_, err = testnet.Do(timed(t), dir, testnet.Order{Op: "kill", Peer: 2})
	wants(t, err, api.Conflict, "does not run")
	if a := do(testnet.Order{Op: "restart", Peer: 2}); !a.Peers[1].Running {
		t.Errorf("%+v", a)
	}
	_, err = testnet.Do(timed(t), dir, testnet.Order{Op: "dance"})
	wants(t, err, api.Usage, "dance")
	_, err = testnet.Do(timed(t), dir, testnet.Order{Op: "kill", Peer: 7})
	wants(t, err, api.NotFound, "no peer 7")
	do(testnet.Order{Op: "down"})
	if err := <-served; err != nil {
		t.Fatal(err)
	}
}

func TestATestnetThatCannotBeSaysWhy(t *testing.T) {
	for _, n := range []int{0, -1, testnet.MaxPeers + 1} {
		_, err := testnet.Start(timed(t), testnet.Config{Dir: t.TempDir(), N: n})
		wants(t, err, api.Usage, "1 to 50")
	}
	_, err := testnet.Start(timed(t), testnet.Config{Dir: t.TempDir(), N: 1, Exe: "/nonexistent/peer"})
	if err == nil || !strings.Contains(err.Error(), "/nonexistent/peer") {
		t.Error(err)
	}
	_, err = testnet.Start(timed(t), testnet.Config{Dir: t.TempDir(), N: 1, Exe: exe(t), UpArgs: []string{"--cpus", "many"}})
	if err == nil || !strings.Contains(err.Error(), "--cpus") {
		t.Errorf("the peer's own last words are missing: %v", err)
	}
}

func TestTheEndOfATestnetRemovesItsFolderUnlessItIsKept(t *testing.T) {
	for _, keep := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "net")
		net, err := testnet.Start(timed(t), testnet.Config{Dir: dir, N: 1, Exe: exe(t), Keep: keep})
		if err != nil {
			t.Fatal(err)
		}
		net.Stop()
		if _, err := os.Stat(dir); (err == nil) != keep {
			t.Errorf("keep %v: %v", keep, err)
		}
		if net.Running(1) {
			t.Error("the peer still runs")
		}
	}
}

func TestTheDemonstrationEndsWithEveryResultRight(t *testing.T) {
	long.Test(t)
	t.Setenv("TMPDIR", t.TempDir()) // its files stay
	var talk, table bytes.Buffer
	err := testnet.Demo(timed(t), testnet.Config{Dir: filepath.Join(t.TempDir(), "demo"), Exe: exe(t), Talk: &talk}, &table)
	if err != nil {
		t.Fatalf("%v\n%s", err, talk.String())
	}
	for _, part := range []string{"PEER", "p5", "wrong 0"} {
		if !strings.Contains(table.String(), part) {
			t.Errorf("no %q in\n%s", part, table.String())
		}
	}
	for _, part := range []string{"kill -9 of the coordinator", "its disk is gone", "peer get ", "Every file is here"} {
		if !strings.Contains(talk.String(), part) {
			t.Errorf("no %q in\n%s", part, talk.String())
		}
	}
}

func TestTheBenchmarkMeasuresWhatItIsAskedTo(t *testing.T) {
	var talk bytes.Buffer
	r, err := testnet.Bench(timed(t), testnet.BenchConfig{
		Peers: 2, Exe: exe(t), Dir: t.TempDir(), Quick: true, Only: []string{"latency"}, Talk: &talk,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, talk.String())
	}
	if r.Peers != 2 || r.CPUs < 1 || r.AsOf.IsZero() || len(r.Measures) == 0 {
		t.Fatalf("%+v", r)
	}
	for _, m := range r.Measures {
		if m.Value <= 0 || m.P99 < m.Value || m.Max < m.P99 || m.Unit != "ms" || m.N != 30 {
			t.Errorf("%+v", m)
		}
		if !strings.Contains(talk.String(), m.Name) {
			t.Errorf("%q is not told", m.Name)
		}
	}
}

func TestGroupsAreReadAsWritten(t *testing.T) {
	g, err := testnet.ParseGroups("1, 2/3,4,5")
	if err != nil || fmt.Sprint(g) != "[[1 2] [3 4 5]]" {
		t.Fatal(g, err)
	}
	for _, bad := range []string{"", "1/", "1,1", "1/1", "0", "a", "-1", "1;2"} {
		_, err := testnet.ParseGroups(bad)
		wants(t, err, api.Usage, "1,2/3,4,5")
	}
}

func TestAFolderIsHashedFileByFile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"b": "", "a": "abc"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := testnet.HashFolder(&b, dir); err != nil {
		t.Fatal(err)
	}
	want := "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n" +
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b\n"
	if b.String() != want {
		t.Fatal(b.String())
	}
	if err := testnet.HashFolder(&b, filepath.Join(dir, "none")); err == nil {
		t.Fatal("a folder that is not there was hashed")
	}
}
