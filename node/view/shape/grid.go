package shape

import (
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// letters are the states as a grid shows them, the worst first: the first that a cell has is its.
var letters = [...]struct {
	letter byte
	name   string
}{
	{'f', "failed"},
	{'j', "rejected"},
	{'o', "orphaned"},
	{'h', "shutdown"},
	{'r', "running"},
	{'s', "saving"},
	{'q', "queued"},
	{'p', "pending"},
	{'c', "complete"},
	{'-', "retired"},
}

// rank is the position of a row in letters.
func rank(r *Row) int {
	switch s := r.State; {
	case r.Retired:
		return 9
	case s == taskstate.Failed:
		return 0
	case s == taskstate.Rejected:
		return 1
	case s == taskstate.Shutdown:
		return 3
	case s == taskstate.Complete:
		return 8
	case s.Final():
		return 2
	case s == taskstate.Running:
		return 4
	case s == taskstate.Saving:
		return 5
	case s >= taskstate.Assigned:
		return 6
	}
	return 7
}

// Grid is the job in at most so many cells.
func (f *Facts) Grid(cells int) api.Grid {
	rows := f.newest()
	each := max(1, (len(rows)+cells-1)/cells)
	g := api.Grid{Slots: len(rows), Each: each, Legend: map[string]string{}, Counts: map[string]int{}}
	var counts [len(letters)]int
	out := make([]byte, 0, (len(rows)+each-1)/each)
	for from := 0; from < len(rows); from += each {
		worst := len(letters) - 1
		for i := from; i < min(from+each, len(rows)); i++ {
			k := rank(&rows[i])
			counts[k]++
			worst = min(worst, k)
		}
		out = append(out, letters[worst].letter)
	}
	g.Cells = string(out)
	for k, l := range letters {
		g.Legend[string(l.letter)], g.Counts[l.name] = l.name, counts[k]
	}
	return g
}
