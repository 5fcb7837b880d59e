package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p/starts"
	"github.com/coveyproject/covey/taskstate"
)

// startsName is the file in which a data folder remembers its starts. It is written anew by each,
// before that start's number is used.
const startsName = "starts"

// lastBegun is what a start leaves for the next one.
type lastBegun struct {
	Number uint64   `json:"number"`
	Before uint64   `json:"before"`
	Stamps []uint64 `json:"stamps,omitempty"` // starts before this one that may have used the worker's journal last
	Place  string   `json:"place"`            // where the folder was: a copy of it is elsewhere
	Born   string   `json:"born,omitempty"`   // when the file was made by which Place is known; "": it is not known
	Host   string   `json:"host"`             // on which machine
	Logs   []uint64 `json:"logs,omitempty"`   // numbers of which the log of this peer's seat has one (quorum.Root); none: it may have any
	Stale  string   `json:"stale,omitempty"`  // why the seat may be behind what it acknowledged
	Moved  bool     `json:"moved,omitempty"`  // that is only because the folder was moved (quorum.Doubt)
	Left   int64    `json:"left,omitempty"`   // when the membership was made that this peer gave up by itself: a ticket lets it in again
}

// thisStart is a start of this program in its folder, and those before it.
type thisStart struct {
	start  starts.Start
	stamps []uint64 // of starts before it that may have used the worker's journal last
	moved  string   // why the folder seems not to be where it was at the last start; "": it is
	left   int64    // when the membership was made that the peer gave up by itself, if it did
}

// begin draws the number of this start and writes it down.
func (f *folder) begin(self taskstate.PeerID) (b thisStart, err error) {
	f.starts.Lock()
	defer f.starts.Unlock()
	last, err := f.lastStart()
	if err != nil {
		return b, err
	}
	if last.Number != 0 {
		b.stamps = append(slices.Clone(last.Stamps), last.Number)
		b.moved = f.movedFrom(last)
	}
	b.start, b.left = starts.Start{Number: last.Number}.Next(), last.Left
	next := lastBegun{
		Number: b.start.Number, Before: b.start.Before, Place: f.place(), Born: born(f.path(keyFile)), Host: machineID(),
		Logs: last.Logs, Stale: last.Stale, Moved: last.Moved, Left: last.Left,
	}
	if b.moved != "" && (last.Stale == "" || last.Moved) {
		next.Stale, next.Moved = b.moved, true
	}
	if s := journal.LastStart(f.dir, self); len(b.stamps) == 0 || slices.Contains(b.stamps, s) {
		next.Stamps = []uint64{s} // until this start has put its own there
	}
	return b, f.remember(next)
}

// stamped notes that this start has used the worker's journal: one with the stamp of another start
// is a copy from then on. Should that not reach the disk, a copy of the start before would not be
// noticed by this.
func (f *folder) stamped() error {
	return f.amend(func(last *lastBegun) { last.Stamps = nil })
}

// setLeft remembers that this peer gave up by itself the membership that was made then; 0: it has
// joined again.
func (f *folder) setLeft(member int64) error {
	return f.amend(func(last *lastBegun) { last.Left = member })
}

// amend changes what this start has written down.
func (f *folder) amend(change func(*lastBegun)) error {
	f.starts.Lock()
	defer f.starts.Unlock()
	last, err := f.lastStart()
	if err != nil || last.Number == 0 {
		return err
	}
	change(&last)
	return f.remember(last)
}

// Stale implements quorum.Root.
func (f *folder) Stale() quorum.Doubt {
	f.starts.Lock()
	defer f.starts.Unlock()
	last, err := f.lastStart()
	if err != nil {
		return quorum.Doubt{}
	}
	return quorum.Doubt{Why: last.Stale, Moved: last.Moved}
}

// SetStale implements quorum.Root.
func (f *folder) SetStale(d quorum.Doubt) error {
	return f.amend(func(last *lastBegun) { last.Stale, last.Moved = d.Why, d.Moved })
}

// Draw implements quorum.Root. The number is on disk here before it is in the log.
func (f *folder) Draw(was uint64, write func(last bool, number uint64) error) error {
	last, number := true, uint64(0)
	err := f.amend(func(b *lastBegun) {
		last, number = len(b.Logs) == 0 || slices.Contains(b.Logs, was), starts.Start{Number: was}.Next().Number
		b.Logs = []uint64{was, number}
	})
	if err == nil && number == 0 {
		err = errors.New("what this start is to write down is missing")
	}
	if err != nil {
		return err
	}
	if err := write(last, number); err != nil {
		return err
	}
	return f.amend(func(b *lastBegun) { b.Logs = []uint64{number} })
}

func (f *folder) remember(last lastBegun) error {
	b, err := json.Marshal(last)
	if err != nil {
		return err
	}
	return atomicfile.Write(f.path(startsName), atomicfile.WithSum(b))
}

// lastStart reads what the start before left: nothing in a new folder, or in one of version 0.1. A
// damaged file counts as none: whether another process uses the same key is asked of the peers
// that answer, not of the file.
func (f *folder) lastStart() (last lastBegun, err error) {
	b, err := os.ReadFile(f.path(startsName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return lastBegun{}, nil
	case err != nil:
		return lastBegun{}, fmt.Errorf("read %s: %w", f.path(startsName), err)
	}
	return decodeStart(b), nil
}

// decodeStart reads the file's content: nothing if it is damaged.
func decodeStart(file []byte) (last lastBegun) {
	line, err := atomicfile.Summed(file)
	if err != nil || json.Unmarshal(line, &last) != nil || len(last.Stamps) > 2 || len(last.Logs) > 2 {
		return lastBegun{}
	}
	return last
}

// checkMoved rejects --moved for what is not a data folder that was moved: a new peer would be
// made.
func checkMoved(cfg Config) error {
	if !cfg.Moved {
		return nil
	}
	if cfg.NewIdentity {
		return api.Errorf(api.Usage, "--moved says that this is the peer it was, and --new-identity that it is another one; leave one of them out")
	}
	if _, err := os.Stat(filepath.Join(cfg.Data, keyFile)); err != nil {
		return api.Errorf(api.Usage, "--moved: the data folder %s holds no peer (%v); say where it was moved to with --data DIR", cfg.Data, err)
	}
	return nil
}

// movedFrom tells whether the folder is where it was at its last start, as far as the system can
// tell.
func (f *folder) movedFrom(last lastBegun) string {
	here, made, host := f.place(), born(f.path(keyFile)), machineID()
	switch {
	case host != "" && last.Host != "" && host != last.Host:
		return "this data folder was last used on another machine"
	case here != "" && last.Place != "" && here != last.Place || f.at == "" && made != "" && last.Born != "" && made != last.Born:
		return "this data folder was copied, restored or moved since its last start"
	}
	return ""
}

// place is what tells a folder from a copy of it.
func (f *folder) place() string {
	if f.at != "" {
		return f.at
	}
	info, err := os.Stat(f.path(keyFile))
	if err != nil {
		return ""
	}
	return fileIdentity(info)
}

// machineID is what Linux calls this installation; "" elsewhere.
func machineID() string {
	b, err := os.ReadFile("/etc/machine-id")
	if err != nil || len(b) > 128 {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// firstIncarnation is the worker's in a folder that has none: one that was a member's must have a
// journal.
func (f *folder) firstIncarnation(member bool) taskstate.Incarnation {
	if f.fresh || !member && !f.lostRoster() {
		return f.incarnation
	}
	return ""
}
