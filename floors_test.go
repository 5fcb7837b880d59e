package covey_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// floors is the house: a package imports only packages of floors strictly below its own. The
// longest prefix counts.
var floors = map[string]int{
	"internal/pause":              0,
	"internal/strain":             0,
	"internal/far":                0,
	"internal/atomicfile":         0,
	"internal/wake":               0,
	"internal/golden":             1,
	"internal/mailbox":            1,
	"internal/long":               0,
	"internal/limit":              0,
	"p2p/wire":                    0,
	"p2p/starts":                  0,
	"p2p/line":                    0,
	"taskstate/spell":             0, // units and near words: read alike in job files, flags and constraints
	"taskstate/shell":             0, // a line's quotes: read alike where a job is made and where it runs
	"taskstate":                   1,
	"p2p":                         1,
	"p2p/memnet":                  1,
	"p2p/admission":               1,
	"taskstate/constraint":        1, // a language of its own: knows neither jobs nor placement, so that both can rest on it
	"taskstate/jobfile":           2,
	"placement":                   2,
	"membership/digest":           1,
	"membership/verdict":          0, // what membership concludes and the coordinator, which knows no gossip, acts on
	"membership":                  2,
	"dispatch/ledger":             2,
	"dispatch/ledger/act":         1,
	"dispatch/rollout":            2,
	"dispatch/replicas":           2,
	"dispatch/cron":               2,
	"node/api":                    2,
	"node/api/client":             3,
	"node/caller":                 3,
	"dispatch":                    5, // the tests of both loops together
	"dispatch/session":            3,
	"dispatch/coordinator/freeze": 2,
	"dispatch/coordinator/clock":  0,
	"dispatch/coordinator/owners": 3,
	"dispatch/coordinator":        5,
	"dispatch/worker":             5,
	"dispatch/worker/journal":     4,
	"node/runner":                 3,
	"node/runner/process":         2,
	"node/runner/noop":            2,
	"node/stager":                 4,
	"node/room":                   2, // rests on how the supervisor tells a disk that is low
	"node/tasklog":                3,
	"node/highwater":              2,
	"node/stdin":                  3,
	"node/calls":                  6,
	"node/troubles":               3,
	"node/view":                   7,
	"node/view/shape":             3,
	"node/story":                  1,
	"node/links":                  3,
	"node/load":                   4,
	"node/doctor":                 3,
	"node/clinic":                 4,
	"node/decide":                 8,
	"node":                        9,
	"testnet/history":             4,
	"testnet":                     10,
	"testnet/sim":                 10,
	"testnet/sim/memjournal":      5,
	"testnet/sim/memledger":       3,
	"testnet/stack":               10,
	"cmd/peer":                    11,
	"cmd/peer/top":                10,
	"cmd/peer/manual":             0,
	"cmd/peer/service":            3,
	"release":                     0, // a module of its own: it can import nothing from here
	"node/runner/supervise":       1,
	"node/runner/sandbox":         0, // what the supervisor rests on: it begins before most packages do

	"dispatch/ledger/quorum":         3,
	"dispatch/ledger/quorum/store":   2,
	"dispatch/ledger/quorum/mark":    1,
	"dispatch/ledger/quorum/raftlog": 0,
	"node/orders":                    8,
	"node/held":                      7,
	"node/sweep":                     3,
	"node/entry":                     7,
	"node/roster":                    4,

	"node/blob/piece": 0,
	"node/blob/swarm": 1,
	"node/blob":       3,
	"node/blob/tree":  1,
	"node/blob/disk":  2,
	"node/blob/store": 2,
	"node/files":      4,
	"node/care":       5,
	"node/copies":     4,
	"node/keep":       4,
	"node/logreplica": 6,
	"node/saver":      5,
	"node/guard":      5,
	"node/readers":    3,
	"node/metrics":    3,
	"node/web":        0,
	"node/door":       3,

	"trust/audit":  1,
	"trust/seal":   1,
	"node/secrets": 4,
	"trust/policy": 2,
}

func floorOf(pkg string) (int, bool) {
	for p := pkg; p != "."; p = filepath.Dir(p) {
		if f, ok := floors[p]; ok {
			return f, true
		}
	}
	return 0, false
}

func TestAPackageImportsOnlyFromFloorsBelow(t *testing.T) {
	for _, path := range sources(t) {
		checkImports(t, path)
	}
}

// sources are the files of all packages, without tests.
func sources(t *testing.T) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && filepath.Dir(path) != "." {
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func checkImports(t *testing.T, path string) {
	t.Helper()
	pkg := filepath.ToSlash(filepath.Dir(path))
	own, ok := floorOf(pkg)
	if !ok {
		t.Errorf("%s: package %s has no floor: add it to the table in floors_test.go and to docs/floors.md, or put the code into a package that has one", path, pkg)
		return
	}
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Errorf("%s: %v", path, err)
		return
	}
	for _, imp := range f.Imports {
		name := strings.Trim(imp.Path.Value, `"`)
		if name == "testing" || strings.HasPrefix(name, "testing/") {
			t.Errorf("%s imports %s: test support belongs in _test files, so that the binary does not carry it", path, name)
		}
		below, ok := strings.CutPrefix(name, "github.com/coveyproject/covey/")
		if !ok {
			continue
		}
		if other, ok := floorOf(below); !ok || other >= own {
			t.Errorf("%s (floor %d) imports %s (floor %d): a package may only rest on floors below it, or changes ripple in circles. "+
				"Declare a small interface where it is used and let node join the two", path, own, below, other)
		}
	}
}
