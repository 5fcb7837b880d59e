package metrics_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/metrics"
	"github.com/coveyproject/covey/taskstate"
)

const me = "12D3KooWme"

// sources are those of a small cluster.
func sources() metrics.Sources {
	return metrics.Sources{
		Self: me, Version: "0.2.0",
		Peers: func(context.Context) (api.Peers, error) {
			return api.Peers{Peers: []api.Peer{
				{ID: me, Self: true, Standing: "ready", Path: "self", CPUs: 4, CPUsRunning: 1.5, CPUsQueued: 2, Memory: 8 << 30, MemoryUsed: 1 << 30},
				{ID: "b", Standing: "ready", Path: "direct", RTT: 0.004},
				{ID: "c", Standing: "unreachable", Path: "none"},
				{ID: "d", Standing: "ready", Path: "relayed", RTT: 0.2},
			}}, nil
		},
		Jobs: func(context.Context) (api.Jobs, error) {
			return api.Jobs{Jobs: []api.Job{
				{State: "running", Tasks: map[string]int{"running": 3, "pending": 2}},
				{State: "pending", Tasks: map[string]int{"pending": 5}, After: []api.Predecessor{{}}},
				{State: "held", Tasks: map[string]int{"pending": 1}},
			}}, nil
		},
		Coordinator: func() (taskstate.PeerID, bool) { return me, true },
		Seats:       func() (int, int) { return 3, 2 },
		Applied:     func() uint64 { return 77 },
		Free:        func() (int64, bool) { return 5 << 30, true },
		Dropped:     func() int64 { return 4 },
		Faults:      func() map[string]int64 { return map[string]int64{"flood": 2} },
	}
}

// used is a Meter to which everything it counts has happened.
func used() *metrics.Meter {
	m := metrics.New(sources())
	m.Committed(3 * time.Millisecond)
	m.Synced(time.Millisecond)
	m.Answered("GET /v1/status", 200)
	m.Decided(ledger.Event{
		Entry: ledger.Entry{Commands: []ledger.Command{
			{Lead: &ledger.Lead{}},
			{Settle: &ledger.Settle{Peer: me, Statuses: []taskstate.Status{
				{Task: taskstate.Task("jrefused000", 1, 1), State: taskstate.Complete},
				{Task: taskstate.Task("jone0000000", 1, 1), State: taskstate.Complete, Took: 2500, Waited: 20},
				{Task: taskstate.Task("jone0000000", 2, 1), State: taskstate.Failed, Reason: taskstate.ReasonExit, Took: 40},
				{Task: taskstate.Task("jone0000000", 3, 1), State: taskstate.Failed, Reason: "of-a-later-version"},
			}}},
			{Settle: &ledger.Settle{Peer: "b", Statuses: []taskstate.Status{{Task: taskstate.Task("jone0000000", 4, 1), State: taskstate.Complete}}}},
			{Supersede: &ledger.Supersede{Task: taskstate.Task("jone0000000", 5, 1), Reason: taskstate.ReasonUnreachable}},
			{Supersede: &ledger.Supersede{Task: taskstate.Task("jone0000000", 6, 1), Reason: taskstate.ReasonUnreachable}},
		}},
		Results: []ledger.Result{{}, {Statuses: []taskstate.TaskID{taskstate.Task("jrefused000", 1, 1)}}, {}, {}, {Refused: ledger.CodeUnknown}},
	})
	m.Decided(ledger.Event{Reset: true, Entry: ledger.Entry{Commands: []ledger.Command{{Lead: &ledger.Lead{}}}}})
	return m
}

func scrape(t *testing.T, m *metrics.Meter) (text string, families map[string]*dto.MetricFamily) {
	t.Helper()
	var b bytes.Buffer
	if err := m.Metrics(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), families
}

func TestNumbersAreThoseOfThePeerAndOfTheClusterAsItSeesIt(t *testing.T) {
	text, _ := scrape(t, used())
	for _, want := range []string{
		`covey_peers{standing="ready"} 3`, `covey_peers{standing="unreachable"} 1`,
		`covey_coordinator 1`, `covey_coordinator_known 1`, `covey_session_up 1`,
		`covey_voters{answering="no"} 1`, `covey_voters{answering="yes"} 2`,
		`covey_ledger_applied_index 77`, `covey_elections_total 1`,
		`covey_jobs{state="running"} 1`, `covey_jobs_held 1`, `covey_tasks{state="pending"} 8`,
		`covey_slots_waiting{cause="place"} 2`, `covey_slots_waiting{cause="after"} 5`, `covey_slots_waiting{cause="coordinator"} 1`,
		`covey_tasks_ended_total{reason="none",state="complete"} 1`, `covey_tasks_ended_total{reason="exit",state="failed"} 1`,
		`covey_tasks_ended_total{reason="other",state="failed"} 1`,
		`covey_tasks_superseded_total{reason="unreachable"} 1`,
		`covey_task_run_seconds_sum 2.54`, `covey_task_run_seconds_count 2`, `covey_task_wait_seconds_sum 0.02`,
		`covey_ledger_commit_seconds_count 1`, `covey_disk_sync_seconds_count 1`,
		`covey_cpus{kind="offered"} 4`, `covey_cpus{kind="queued"} 2`, `covey_memory_bytes{kind="running"} 1.073741824e+09`,
		`covey_links{path="direct"} 1`, `covey_links{path="none"} 1`, `covey_links{path="relayed"} 1`,
		`covey_link_rtt_seconds{quantile="1"} 0.2`, `covey_data_free_bytes 5.36870912e+09`,
		`covey_gossip_dropped_total 4`, `covey_faults_total{kind="flood"} 2`,
		`covey_api_requests_total{code="200",route="GET /v1/status"} 1`, `covey_build_info{goversion="go`,
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("%s is not there", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestNamesAndHelpFollowTheConventions(t *testing.T) {
	text, families := scrape(t, used())
	var own strings.Builder
	for block := range strings.SplitSeq(text, "# HELP ") {
		if strings.HasPrefix(block, "covey_") {
			own.WriteString("# HELP " + block)
		}
	}
	problems, err := promlint.New(strings.NewReader(own.String())).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	n := 0
	for name := range families {
		if strings.HasPrefix(name, "covey_") {
			n++
		} else if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("%s is nobody's", name)
		}
	}
	if n != 26 {
		t.Errorf("%d of this project, docs/monitoring.md has 26", n)
	}
}

func TestWhatCannotBeSeenIsNotTold(t *testing.T) {
	from := sources()
	from.Peers = func(context.Context) (api.Peers, error) { return api.Peers{}, errors.New("no") }
	from.Jobs = func(context.Context) (api.Jobs, error) { return api.Jobs{}, errors.New("no") }
	from.Free = func() (int64, bool) { return 0, false }
	from.Coordinator = func() (taskstate.PeerID, bool) { return me, false }
	text, families := scrape(t, metrics.New(from))
	for _, name := range []string{"covey_peers", "covey_jobs", "covey_tasks", "covey_data_free_bytes", "covey_cpus", "covey_session_up"} {
		if families[name] != nil {
			t.Errorf("%s is told", name)
		}
	}
	if !strings.Contains(text, "\ncovey_coordinator 0\n") || !strings.Contains(text, "\ncovey_coordinator_known 0\n") {
		t.Error("that there is no coordinator is not told")
	}
}

// What the dashboard, the alerts and the page name must be there.
func TestEverySeriesThatTheDocumentsNameIsThere(t *testing.T) {
	_, families := scrape(t, used())
	parts := regexp.MustCompile(`_(bucket|sum|count)$`)
	named := map[string]bool{}
	for _, file := range []string{"dashboard.json", "alerts.yaml", "../monitoring.md"} {
		b, err := os.ReadFile(filepath.Join("../../docs/monitoring", file))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`covey_[a-z_]+`).FindAllString(string(b), -1)
		if len(found) == 0 {
			t.Errorf("%s names none", file)
		}
		for _, name := range found {
			named[parts.ReplaceAllString(name, "")] = true
			if families[name] == nil && families[parts.ReplaceAllString(name, "")] == nil {
				t.Errorf("%s names %s", file, name)
			}
		}
	}
	for name := range maps.Keys(families) {
		if strings.HasPrefix(name, "covey_") && !slices.Contains(slices.Collect(maps.Keys(named)), name) {
			t.Errorf("docs/monitoring.md does not name %s", name)
		}
	}
}
