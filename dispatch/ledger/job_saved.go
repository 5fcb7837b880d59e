package ledger

import (
	"encoding/binary"
	"errors"
	"iter"
	"math"
	"slices"

	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/taskstate"
)

// Saved yields what is kept of the files of the tasks that are their slots' ends, by slot.
func (j *JobRecord) Saved() iter.Seq2[taskstate.TaskID, *taskstate.Saved] {
	return func(yield func(taskstate.TaskID, *taskstate.Saved) bool) {
		for n := range j.slots.saved.slots() {
			c := j.slots.get(n)
			if !yield(taskstate.Task(j.job.ID, n, int(c.attempt)), j.slots.savedOf(n, &c)) {
				return
			}
		}
	}
}

// KeptBy sums, for each peer that keeps some of what tasks of the job left, the bytes it keeps. It
// costs a few nanoseconds for each slot.
func KeptBy(j *JobRecord) map[taskstate.PeerID]int64 {
	out := map[taskstate.PeerID]int64{}
	t := j.slots.saved
	if t == nil {
		return out
	}
	sums := make([]int64, len(t.kinds)+1) // by kind
	own := make([]bool, len(t.kinds)+1)   // in whose keepers is whose slot it is
	for i, f := range t.kinds {
		for b := []byte(f.keepers); len(b) > 0; b = b[4:] {
			own[i+1] = own[i+1] || binary.BigEndian.Uint32(b) == 0
		}
	}
	makers := map[uint32]int64{} // by owner
	for k := range t.chunks {
		for i := range t.chunks[k].cells {
			x := &t.chunks[k].cells[i]
			if sums[x.kind] += x.bytes; own[x.kind] {
				makers[j.slots.get(k*chunkSize+i+1).owner] += x.bytes
			}
		}
	}
	for owner, n := range makers {
		out[j.slots.owners.list[owner].Peer] += n
	}
	for i, f := range t.kinds {
		for b := []byte(f.keepers); len(b) > 0; b = b[4:] {
			if p := binary.BigEndian.Uint32(b); p > 0 && sums[i+1] > 0 {
				out[t.peers[p-1]] += sums[i+1]
			}
		}
	}
	return out
}

// savedCell is what is kept of the files of a slot's end, in 48 bytes.
type savedCell struct {
	root  piece.Root
	bytes int64
	files uint32
	kind  uint32 // 0: nothing is kept; else kinds[kind-1]
}

// savedKind is what savedCells have in common: the tasks of a job have few keepers.
type savedKind struct {
	keepers string // a number of four bytes for each: 0 is whose slot it is, else peers[number-1]
	keep    int
	why     string
}

// savedChunk is as a chunk of cells.
type savedChunk struct {
	cells []savedCell
	logs  []piece.Root // nil as long as none of the slots has any
	n     int          // cells that say something
	nlogs int
}

// savedTable is what is kept of the files of a job's tasks. Most jobs have none: it is nil. Only
// the slot table calls it.
type savedTable struct {
	chunks  []savedChunk
	kinds   []savedKind
	kindIDs map[savedKind]uint32
	peers   []taskstate.PeerID
	peerIDs map[taskstate.PeerID]uint32
	stale   bool // kinds and peers may have some that no cell has any more
}

// keptOf is what an end says is kept, as far as that may be: a job that has nothing saved has
// nothing kept.
func (t *slotTable) keptOf(st *taskstate.Status) *taskstate.Saved {
	if !t.saves || st.Saved == nil || st.Saved.Check() != nil {
		return nil
	}
	return st.Saved
}

// savedOf is what is kept of the end of slot n, which has cell c.
func (t *slotTable) savedOf(n int, c *cell) *taskstate.Saved {
	if t.saved == nil || c.kind < kindFirst {
		return nil
	}
	return t.saved.get(n, t.owners.list[c.owner].Peer)
}

// keep notes what is kept of the end that slot n has now; its cell says whose slot it is.
func (t *slotTable) keep(n int, c *cell, s *taskstate.Saved) {
	if s == nil {
		t.saved.drop(n)
		return
	}
	if t.saved == nil {
		t.saved = &savedTable{}
	}
	t.saved.put(n, t.count, t.owners.list[c.owner].Peer, s)
}

// kept changes who keeps what tasks left.
func (b *jobTable) kept(k *Kept) Result {
	j, ok := b.jobs[k.Job]
	if !ok {
		return Result{Refused: CodeUnknown}
	}
	r := j.slots.eachSlot(k.Slots, func(n, attempt int) bool {
		c, _ := j.slots.peek(n)
		if c == nil || int(c.attempt) != attempt {
			return false
		}
		x := j.slots.savedOf(n, c)
		if x == nil || !k.change(x, j.job.Submitter) {
			return false
		}
		j.slots.keep(n, c, x)
		return true
	})
	if j.over { // it may weigh another amount now
		j.slots.saved.tidy()
		b.finished.bytes -= j.weight
		j.weight = j.estimateBytes()
		b.finished.bytes += j.weight
	}
	return r
}

// whyLost is why there are fewer copies of something than there were.
const whyLost = "a copy was lost"

// change changes who keeps what one task left, if that may be.
func (k *Kept) change(x *taskstate.Saved, submitter taskstate.PeerID) bool {
	x.Keepers = slices.DeleteFunc(x.Keepers, func(p taskstate.PeerID) bool {
		return p == k.Peer && k.Not || p != k.Peer && slices.Contains(k.Lost, p)
	})
	released := k.Not && !slices.Contains(k.Lost, k.Peer)
	switch {
	case released && (len(x.Keepers) < x.Keep || !slices.Contains(x.Keepers, submitter)):
		return false
	case !k.Not && !slices.Contains(x.Keepers, k.Peer):
		x.Keepers = append(x.Keepers, k.Peer)
	}
	switch {
	case len(x.Keepers) >= x.Keep:
		x.Why = ""
	case x.Why == "":
		x.Why = whyLost
	}
	return x.Check() == nil
}

// at is the chunk of slot n and the slot's place in it; nil if there is none.
func (t *savedTable) at(n int) (*savedChunk, int) {
	if t == nil {
		return nil, 0
	}
	k, i := (n-1)/chunkSize, (n-1)%chunkSize
	if k >= len(t.chunks) || i >= len(t.chunks[k].cells) {
		return nil, 0
	}
	return &t.chunks[k], i
}

func (t *savedTable) get(n int, maker taskstate.PeerID) *taskstate.Saved {
	ch, i := t.at(n)
	if ch == nil || ch.cells[i].kind == 0 {
		return nil
	}
	x := &ch.cells[i]
	f := t.kinds[x.kind-1]
	s := &taskstate.Saved{Root: x.root, Bytes: x.bytes, Files: int(x.files), Keep: f.keep, Why: f.why}
	for b := []byte(f.keepers); len(b) > 0; b = b[4:] {
		if k := binary.BigEndian.Uint32(b); k == 0 {
			s.Keepers = append(s.Keepers, maker)
		} else {
			s.Keepers = append(s.Keepers, t.peers[k-1])
		}
	}
	if ch.logs != nil {
		s.Logs = ch.logs[i]
	}
	return s
}

// put notes what is kept of slot n of so many.
func (t *savedTable) put(n, of int, maker taskstate.PeerID, s *taskstate.Saved) {
	t.drop(n)
	k, i := (n-1)/chunkSize, (n-1)%chunkSize
	if k >= len(t.chunks) {
		t.chunks = append(t.chunks, make([]savedChunk, k+1-len(t.chunks))...)
	}
	ch, size := &t.chunks[k], min(chunkSize, of-k*chunkSize)
	if ch.cells == nil {
		ch.cells = make([]savedCell, size)
	}
	ch.n++
	ch.cells[i] = savedCell{root: s.Root, bytes: s.Bytes, files: uint32(s.Files), kind: t.kind(maker, s)}
	if s.Logs.IsZero() {
		return
	}
	if ch.logs == nil {
		ch.logs = make([]piece.Root, size)
	}
	ch.nlogs++
	ch.logs[i] = s.Logs
}

// drop forgets what is kept of slot n.
func (t *savedTable) drop(n int) {
	ch, i := t.at(n)
	if ch == nil || ch.cells[i].kind == 0 {
		return
	}
	t.stale = true
	if ch.logs != nil && !ch.logs[i].IsZero() {
		if ch.logs[i] = (piece.Root{}); ch.nlogs == 1 {
			ch.logs = nil
		}
		ch.nlogs--
	}
	if ch.cells[i] = (savedCell{}); ch.n == 1 {
		ch.cells = nil
	}
	ch.n--
}

// kind gives what many cells have in common its number.
func (t *savedTable) kind(maker taskstate.PeerID, s *taskstate.Saved) uint32 {
	var keepers []byte
	for _, p := range s.Keepers {
		k := uint32(0)
		if p != maker {
			k = t.peer(p)
		}
		keepers = binary.BigEndian.AppendUint32(keepers, k)
	}
	return t.addKind(savedKind{keepers: string(keepers), keep: s.Keep, why: s.Why})
}

func (t *savedTable) addKind(f savedKind) uint32 {
	id, ok := t.kindIDs[f]
	if !ok {
		if t.kindIDs == nil {
			t.kindIDs = map[savedKind]uint32{}
		}
		t.kinds = append(t.kinds, f)
		id = uint32(len(t.kinds))
		t.kindIDs[f] = id
	}
	return id
}

func (t *savedTable) peer(p taskstate.PeerID) uint32 {
	id, ok := t.peerIDs[p]
	if !ok {
		if t.peerIDs == nil {
			t.peerIDs = map[taskstate.PeerID]uint32{}
		}
		t.peers = append(t.peers, p)
		id = uint32(len(t.peers))
		t.peerIDs[p] = id
	}
	return id
}

// slots yields the slots of which something is kept, ascending.
func (t *savedTable) slots() iter.Seq[int] {
	return func(yield func(int) bool) {
		if t == nil {
			return
		}
		for k := range t.chunks {
			for i := range t.chunks[k].cells {
				if t.chunks[k].cells[i].kind != 0 && !yield(k*chunkSize+i+1) {
					return
				}
			}
		}
	}
}

// renumbered has the kinds and peers that cells have, numbered in the order of the slots, and says
// which number a kind has there.
func (t *savedTable) renumbered() (fresh *savedTable, kinds map[uint32]uint32) {
	fresh, kinds = &savedTable{}, map[uint32]uint32{}
	for n := range t.slots() {
		ch, i := t.at(n)
		old := ch.cells[i].kind
		if kinds[old] != 0 {
			continue
		}
		f := t.kinds[old-1]
		var keepers []byte
		for b := []byte(f.keepers); len(b) > 0; b = b[4:] {
			k := binary.BigEndian.Uint32(b)
			if k > 0 {
				k = fresh.peer(t.peers[k-1])
			}
			keepers = binary.BigEndian.AppendUint32(keepers, k)
		}
		f.keepers = string(keepers)
		kinds[old] = fresh.addKind(f)
	}
	return fresh, kinds
}

// tidy forgets kinds and peers that no cell has: what a job weighs must not depend on what it was
// long ago.
func (t *savedTable) tidy() {
	if t == nil || !t.stale {
		return
	}
	fresh, kinds := t.renumbered()
	for n := range t.slots() {
		ch, i := t.at(n)
		ch.cells[i].kind = kinds[ch.cells[i].kind]
	}
	fresh.chunks = t.chunks
	*t = *fresh
}

// bytes is about what it occupies. It is the same in a state that was restored.
func (t *savedTable) bytes() (w int) {
	const cellBytes, logsBytes, kindBytes, peerBytes = 48, 32, 160, 64
	if t == nil {
		return 0
	}
	for k := range t.chunks {
		w += cellBytes*len(t.chunks[k].cells) + logsBytes*len(t.chunks[k].logs)
	}
	for _, f := range t.kinds {
		w += kindBytes + 2*len(f.keepers) + 2*len(f.why)
	}
	for _, p := range t.peers {
		w += peerBytes + 2*len(p)
	}
	return w
}

// savedSnapshot is a savedTable in a snapshot. Kinds and peers are numbered in the order in which
// cells have them. A cell is written as how many slots were skipped; its kind and, in the lowest
// two bits, whether it has a root and logs; bytes and files; and these roots.
type savedSnapshot struct {
	Peers []taskstate.PeerID  `cbor:"1,keyasint,omitempty"`
	Kinds []savedKindSnapshot `cbor:"2,keyasint"`
	Cells []byte              `cbor:"3,keyasint"`
}

type savedKindSnapshot struct {
	Keepers []uint32 `cbor:"1,keyasint,omitempty"` // as in savedKind
	Keep    int      `cbor:"2,keyasint,omitempty"`
	Why     string   `cbor:"3,keyasint,omitempty"`
}

// The lowest bits of a cell's kind in a snapshot.
const (
	savedHasRoot = 1 << iota
	savedHasLogs
	savedKindShift = iota
)

func (t *savedTable) pack() *savedSnapshot {
	if t == nil {
		return nil
	}
	fresh, kinds := t.renumbered()
	out, prev := &savedSnapshot{Peers: fresh.peers}, 0
	for _, f := range fresh.kinds {
		x := savedKindSnapshot{Keep: f.keep, Why: f.why}
		for b := []byte(f.keepers); len(b) > 0; b = b[4:] {
			x.Keepers = append(x.Keepers, binary.BigEndian.Uint32(b))
		}
		out.Kinds = append(out.Kinds, x)
	}
	for n := range t.slots() {
		ch, i := t.at(n)
		c, logs := &ch.cells[i], piece.Root{}
		if ch.logs != nil {
			logs = ch.logs[i]
		}
		out.Cells = packSaved(out.Cells, n-prev-1, c, kinds[c.kind], logs)
		prev = n
	}
	if prev == 0 {
		return nil
	}
	return out
}

func packSaved(buf []byte, skipped int, c *savedCell, kind uint32, logs piece.Root) []byte {
	head := uint64(kind) << savedKindShift
	if !c.root.IsZero() {
		head |= savedHasRoot
	}
	if !logs.IsZero() {
		head |= savedHasLogs
	}
	buf = binary.AppendUvarint(buf, uint64(skipped))
	buf = binary.AppendUvarint(buf, head)
	buf = binary.AppendUvarint(buf, uint64(c.bytes))
	buf = binary.AppendUvarint(buf, uint64(c.files))
	if head&savedHasRoot != 0 {
		buf = append(buf, c.root[:]...)
	}
	if head&savedHasLogs != 0 {
		buf = append(buf, logs[:]...)
	}
	return buf
}

var errSaved = errors.New("what is kept of its files is garbled")

// unpackSaved comes after the cells: what is kept belongs to an end.
func (t *slotTable) unpackSaved(in *savedSnapshot) error {
	if in == nil {
		return nil
	}
	if !t.saves || len(in.Cells) == 0 {
		return errSaved
	}
	kinds, err := in.unpackKinds()
	if err != nil {
		return err
	}
	r, n := &cellReader{buf: in.Cells}, 0
	for len(r.buf) > 0 {
		n += int(r.uint(uint64(t.count))) + 1
		s, known := r.saved(kinds)
		if r.bad || n > t.count {
			return errSaved
		}
		c := t.get(n)
		if c.kind < kindFirst {
			return errSaved
		}
		maker := t.owners.list[c.owner].Peer
		for i, k := range known.Keepers {
			if s.Keepers[i] = maker; k > 0 {
				s.Keepers[i] = in.Peers[k-1]
			}
		}
		if s.Check() != nil {
			return errSaved
		}
		t.keep(n, &c, s)
	}
	if r.bad || len(t.saved.kinds) != len(in.Kinds) || len(t.saved.peers) != len(in.Peers) {
		return errSaved
	}
	return nil
}

// unpackKinds holds the numbers of keepers against the list of peers.
func (in *savedSnapshot) unpackKinds() ([]savedKindSnapshot, error) {
	for _, f := range in.Kinds {
		for _, k := range f.Keepers {
			if int64(k) > int64(len(in.Peers)) {
				return nil, errSaved
			}
		}
	}
	return in.Kinds, nil
}

// saved reads one cell, without its keepers, which its kind names.
func (r *cellReader) saved(kinds []savedKindSnapshot) (*taskstate.Saved, savedKindSnapshot) {
	head := r.uint(math.MaxUint32)
	s := &taskstate.Saved{Bytes: int64(r.uint(math.MaxInt64)), Files: int(r.uint(math.MaxUint32))}
	if head&savedHasRoot != 0 {
		r.root(&s.Root)
	}
	if head&savedHasLogs != 0 {
		r.root(&s.Logs)
	}
	kind := head >> savedKindShift
	if r.bad || kind < 1 || kind > uint64(len(kinds)) {
		r.bad = true
		return s, savedKindSnapshot{}
	}
	f := kinds[kind-1]
	s.Keep, s.Why, s.Keepers = f.Keep, f.Why, make([]taskstate.PeerID, len(f.Keepers))
	return s, f
}

// root reads a root, which is not zero.
func (r *cellReader) root(to *piece.Root) {
	n := copy(to[:], r.buf)
	r.buf = r.buf[n:]
	r.bad = r.bad || n < len(to) || to.IsZero()
}
