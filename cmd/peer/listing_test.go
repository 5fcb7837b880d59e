package main

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/coveyproject/covey/node/blob/tree"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

func TestAnOfferThatNobodyKnowsIsNotShownAsNone(t *testing.T) {
	g := peersTable(api.Peers{Peers: []api.Peer{
		{ID: "a", CPUs: 2, CPUsRunning: 0.5, Memory: 4 << 30, MemoryUsed: 1 << 30},
		{ID: "b", CPUsRunning: 1},
	}}, false, false)
	cpus := slices.Index(g.head, "CPUS")
	for i, want := range [][]string{{"0.5/2", "1GiB/4GiB"}, {"1/-", "0B/-"}} {
		if got := g.rows[i][cpus : cpus+2]; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// clusterOf is a cluster as most people see theirs.
func clusterOf(names ...string) (ps api.Peers) {
	for i, name := range names {
		ps.Peers = append(ps.Peers, api.Peer{
			ID: "12D3KooWLLESLMj3e7zuU63j8abTux5RiVoxvTmbuhDChTd6BKv" + string(rune('a'+i)), Name: name, Standing: "ready", Voter: true, Coordinator: i == 0,
			Availability: api.Active, Path: "direct", RTT: 0.0031, CPUs: 8, CPUsRunning: 6.4, Memory: 16 << 30, Tasks: 12, Version: "0.2.0", Age: 0.4,
		})
	}
	ps.Peers[0].Path, ps.Peers[0].RTT = "self", 0
	return ps
}

func TestAClusterWhereAllIsWellFitsHalfATerminal(t *testing.T) {
	var b bytes.Buffer
	peersTable(clusterOf("nas", "mini", "raspberry"), false, false).write(&b)
	want := `NAME       ROLE         STATE  CPUS   TASKS  LINK
nas        coordinator  ready  6.4/8  12     self
mini       voter        ready  6.4/8  12     direct 3ms
raspberry  voter        ready  6.4/8  12     direct 3ms
`
	if b.String() != want {
		t.Errorf("\n%s\nnot\n%s", b.String(), want)
	}
}

func TestWhatTellsPeersApartHasAColumn(t *testing.T) {
	for column, change := range map[string]func(*api.Peer){
		"VERSION": func(p *api.Peer) { p.Version = "0.1.0" }, "AGE": func(p *api.Peer) { p.Age = 12 }, "MEMORY": func(p *api.Peer) { p.MemoryUsed = 1 }, "DISK": func(p *api.Peer) { p.DiskUsed = 1 },
		"AVAILABLE": func(p *api.Peer) { p.Availability = api.Paused }, "ID": func(p *api.Peer) { p.Name = "nas" }, "OFFERS": func(p *api.Peer) { p.Offers = map[string]int64{"gpus": 1} },
		"BUSY": func(p *api.Peer) { p.Load = &api.Load{CPU: new(0.0)} },
	} {
		ps := clusterOf("nas", "mini")
		if slices.Contains(peersTable(ps, false, false).head, column) {
			t.Errorf("%s is shown though it says nothing", column)
		}
		change(&ps.Peers[1])
		if !slices.Contains(peersTable(ps, false, false).head, column) {
			t.Errorf("%s is not shown", column)
		}
	}
	if n := len(peersTable(clusterOf("nas"), true, true).head); n != 17 {
		t.Errorf("--wide --labels shows %d columns", n)
	}
}

func TestWhatAMachineDoesNotTellOfItsLoadIsNotShownAsNone(t *testing.T) {
	ps := clusterOf("nas", "mini", "mac")
	ps.Peers[0].Load = &api.Load{CPU: new(0.874), Memory: new(int64(3 << 30)), MemoryOf: 8 << 30, Average: new(7.25)}
	ps.Peers[2].Load = &api.Load{Average: new(1.0)}
	g := peersTable(ps, true, false)
	for i, want := range [][]string{{"87%", "3GiB/8GiB", "7.25"}, {"-", "-", "-"}, {"-", "-", "1"}} {
		for k, head := range []string{"BUSY", "RAM", "LOAD"} {
			if got := g.rows[i][slices.Index(g.head, head)]; got != want[k] {
				t.Errorf("%s of %s: %q, want %q", head, ps.Peers[i].Name, got, want[k])
			}
		}
	}
}

// What is kept has columns only where something is, and they fit a terminal.
func TestTheTableOfTasksSaysWhatIsKeptWhereAJobKeepsFiles(t *testing.T) {
	tasks := []api.Task{
		{ID: "k3v5q7x2ab.101.1", State: "complete", PeerName: "gamma", ExitCode: new(int), Item: "image-101.png", Took: 75, At: time.Now().Add(-3 * time.Minute)},
		{ID: "k3v5q7x2ab.102.1", State: "running", PeerName: "gamma", Item: "image-102.png", At: time.Now().Add(-3 * time.Minute)},
	}
	written := func(tasks []api.Task) []string {
		var b bytes.Buffer
		rows := taskRows{out: &b, carry: func(s string) string { return s }}
		for _, x := range tasks {
			_ = rows.add(x)
		}
		rows.write()
		return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	}
	if head := written(tasks)[0]; !strings.Contains(head, "AGE") || strings.Contains(head, "OUTPUT") || strings.Contains(head, "COPIES") {
		t.Error(head)
	}
	ref := tree.Ref{Dir: true}
	tasks[0].Output = &api.Output{Ref: &ref, Bytes: 9 << 20, Files: 3, Copies: 1, Keep: 2, Why: "nobody else is here"}
	lines := written(tasks)
	if !strings.Contains(lines[0], "OUTPUT  COPIES  MESSAGE") || !strings.HasSuffix(lines[1], "9MiB    1/2     nobody else is here") || strings.Count(lines[2], " -") < 3 {
		t.Errorf("%s", strings.Join(lines, "\n"))
	}
	if n := utf8.RuneCountInString(strings.TrimSuffix(lines[1], "nobody else is here")); n >= 80 {
		t.Errorf("%d columns before the message", n)
	}
}

func TestAStoryTellsADayAndARuleOnce(t *testing.T) {
	at := time.Date(2026, 3, 1, 23, 59, 59, 0, time.Local)
	rule := " (spread: free peers first)"
	g := explainTable(api.Explanation{Explain: []api.Fact{
		{Time: at, Text: "accepted (through p1)"},
		{Time: at, Task: "j.1.1", Text: "placed on p2" + rule},
		{Time: at.Add(2 * time.Second), Task: "j.2.1", Text: "placed on p3" + rule},
		{Time: at.Add(2 * time.Second), Task: "j.3.1", Text: "placed on p3 (binpack: the fullest)"},
	}})
	var got []string
	for _, r := range g.rows {
		got = append(got, r[0]+" "+r[2])
	}
	want := []string{
		"2026-03-01 ", "23:59:59.000 accepted (through p1)", "23:59:59.000 placed on p2" + rule, "2026-03-02 ", "00:00:01.000 placed on p3", "00:00:01.000 placed on p3 (binpack: the fullest)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nnot\n%q", got, want)
	}
}

// A name is no state, whatever it is: only what stands in the column of states has a colour.
func TestOnlyStatesHaveAColourAndEachHasASignOfItsOwn(t *testing.T) {
	on := style(true)
	seen := map[string]bool{}
	for _, s := range append(jobStates, "ready", "suspect", "unreachable", "stopped", "could not start", "lost") {
		if on.state(glyph(s)+" "+s) == glyph(s)+" "+s {
			t.Errorf("%s has no colour", s)
		}
		seen[glyph(s)] = true
	}
	if on.state("fast") != "fast" || len(seen) < 5 {
		t.Errorf("signs: %v", seen)
	}
}

// Each task of a job is counted once in the table, whatever its state, and once in its text.
func TestTheCountsOfJobsAddUpToTheirTasks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := api.Job{ID: "k", Tasks: map[string]int{}}
		all := 0
		for _, s := range taskstate.States()[1:] {
			j.Tasks[s.String()] = rapid.IntRange(0, 9).Draw(t, s.String())
			all += j.Tasks[s.String()]
		}
		j.Count = all
		if away := rapid.IntRange(0, j.Tasks["running"]).Draw(t, "away"); away > 0 {
			j.Unreachable = []api.Away{{PeerName: "nas", Tasks: away, Running: away}}
		}
		g := jobsTable([]api.Job{j})
		cell, shown := g.rows[0][slices.Index(g.head, "TASKS")], 0
		for part := range strings.SplitSeq(cell, ", ") {
			n, err := strconv.Atoi(regexp.MustCompile("^[0-9]+").FindString(part))
			if err != nil {
				t.Fatal(cell, err)
			}
			shown += n
		}
		if shown != all {
			t.Fatalf("%d of %d tasks are in the table: %s of %v", shown, all, cell, j.Tasks)
		}
		var b bytes.Buffer
		jobText(&b, j)
		line := regexp.MustCompile(`(?m)^tasks +(\d+): (.*)$`).FindStringSubmatch(b.String())
		if all == 0 {
			return
		}
		sum := 0
		for _, part := range strings.Split(line[2], ", ") {
			n, _ := strconv.Atoi(strings.Fields(part)[0])
			sum += n
		}
		if line[1] != strconv.Itoa(all) || sum != all {
			t.Fatalf("%q: want %d", line, all)
		}
	})
}

func TestJobsKeepToATerminalOf80ColumnsWithTheirWholeIdsAndTheNewestLast(t *testing.T) {
	many := map[string]int{"complete": 100000, "running": 2000, "failed": 100, "pending": 30000, "shutdown": 1000}
	jobs := []api.Job{
		{ID: "newest2345", Name: strings.Repeat("n", 63), State: "cancelled", Count: 133100, Tasks: many, Command: strings.Repeat("c", 80), Waiting: strings.Repeat("w", 200)},
		{ID: "service234", Name: "web", State: "running", Version: 3, Wanted: 12, Tasks: map[string]int{"running": 11, "pending": 1}, Command: "caddy run"},
		{ID: "oldest2345", Name: "python3", State: "complete", Count: 1, Tasks: map[string]int{"complete": 1}, Command: "python3 train.py --lr 0.1"},
	}
	var b strings.Builder
	g := jobsTable(jobs)
	g.room = 79
	g.write(&b)
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	for _, line := range lines {
		if utf8.RuneCountInString(line) > 79 {
			t.Errorf("%q", line)
		}
	}
	ids := regexp.MustCompile(`(?m)^(\w{10}) `).FindAllString(b.String(), -1)
	if !slices.Equal(ids, []string{"oldest2345 ", "service234 ", "newest2345 "}) {
		t.Errorf("%q in\n%s", ids, b.String())
	}
	b.Reset()
	g = jobsTable(jobs[1:])
	g.room = 79
	g.write(&b)
	for _, want := range []string{"python3 train.py", "11/12 run, 1 wait", "1/1 "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestFailuresCountTasksAndTheirEarlierAttemptsApart(t *testing.T) {
	group := func(count, earlier int) string {
		var b strings.Builder
		failuresText(&b, api.Failures{Groups: []api.Failure{{Message: "exit code 1", Count: count, Earlier: earlier, Peers: []api.PeerCount{{PeerName: "one"}}, Examples: []api.Example{{Task: "j.1.2", Last: "boom"}}}}})
		return b.String()
	}
	for want, got := range map[string]string{
		"failed     100 × exit code 1 on one, and 100 attempts before: boom (task 1.2)\n": group(100, 100),
		"failed     100 × exit code 1 on one: boom (task 1.2)\n":                          group(100, 0),
		"failed     1 attempt before: exit code 1 on one: boom (task 1.2)\n":              group(0, 1),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAddressesOfPeersAreShownOnceEach(t *testing.T) {
	p := api.Peer{Addrs: []string{"/ip4/192.0.2.1/tcp/4001", "/ip4/192.0.2.1/udp/4001/quic-v1", "/ip6/2001:db8::1/tcp/4001", "/ip4/192.0.2.9/tcp/4001/p2p/k/p2p-circuit"}}
	if got := addressesText(p); got != "192.0.2.1:4001 [2001:db8::1]:4001 through 192.0.2.9:4001" {
		t.Error(got)
	}
	if got := addressesText(api.Peer{}); got != "-" {
		t.Error(got)
	}
}

func TestWhatTasksCanBeHeldToFitsATerminalHoweverManyPeersThereAre(t *testing.T) {
	peers := []api.Peer{{Name: "unheard"}, {Name: "bare", OS: "plan9"}}
	for i := range 50 {
		peers = append(peers, api.Peer{Name: "machine-" + strconv.Itoa(i), OS: "linux", Holds: []string{"hide", "nnp", "uid"}})
	}
	var b strings.Builder
	writeHolds(&b, peers, false)
	want := "tasks can be held to nothing on bare\ntasks can be held to hide nnp uid on machine-0, machine-1, machine-2 and 47 more\n"
	if b.String() != want {
		t.Errorf("%s", b.String())
	}
	b.Reset()
	if writeHolds(&b, peers[2:], false); b.String() != "" {
		t.Errorf("all are alike, and it says %s", b.String())
	}
	writeHolds(&b, peers[2:], true)
	if want := "tasks can be held to hide nnp uid everywhere\n"; b.String() != want {
		t.Errorf("%s", b.String())
	}
}

func TestWhatTasksOfAPeerWereHeldToIsToldOnceInAStoryAndAgainWhenItDiffers(t *testing.T) {
	var b strings.Builder
	explainTable(api.Explanation{Explain: []api.Fact{
		{Task: "j.1.1", Peer: "a", Text: "running", HeldTo: []string{"nnp"}},
		{Task: "j.1.1", Peer: "a", Text: "complete", HeldTo: []string{"nnp"}},
		{Task: "j.2.1", Peer: "a", Text: "ran", HeldTo: []string{"nnp"}},
		{Task: "j.3.1", Peer: "b", Text: "elsewhere", HeldTo: []string{"nnp"}},
		{Task: "j.1.2", Peer: "a", Text: "running", HeldTo: []string{}},
		{Task: "j.1.2", Peer: "a", Text: "complete"},
	}}).write(&b)
	for line, n := range map[string]int{"running (held to nnp)": 1, "elsewhere (held to nnp)": 1, "running (held to nothing)": 1, "held to": 3} {
		if strings.Count(b.String(), line) != n {
			t.Errorf("%q is not there %d times:\n%s", line, n, b.String())
		}
	}
}

func TestTasksHaveAColumnForWhatTheyWereHeldToWhereTheyDiffer(t *testing.T) {
	same := []api.Task{{HeldTo: []string{"nnp"}}, {}, {HeldTo: []string{"nnp"}}}
	if heldApart(same) || heldApart(nil) {
		t.Error("they do not differ")
	}
	if !heldApart(append(same, api.Task{HeldTo: []string{}})) {
		t.Error("they differ")
	}
}

func TestAJobNamesThePeersThatAreClearlySlower(t *testing.T) {
	var b bytes.Buffer
	jobText(&b, api.Job{Pace: &api.Pace{Peers: []api.PeerPace{
		{PeerName: "pi", Ended: 9, Took: 12, Others: 2.4, Slower: 5},
		{PeerName: "old", Ended: 5, Took: 6, Others: 2.4, Slower: 2.5},
		{PeerName: "nas", Ended: 40, Took: 2.4, Others: 2.5},
		{PeerName: "stuck", Running: 1, Oldest: 90, Others: 2.4, Slower: 37.5},
	}}})
	for _, want := range []string{
		"slow       pi takes 5× as long as the others: 12s instead of 2.4s\n",
		"slow       old takes 2.5× as long as the others: 6s instead of 2.4s\n",
		"slow       stuck has run a task for 1m30s that takes 2.4s elsewhere\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing:\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "nas") {
		t.Error(b.String())
	}
}
