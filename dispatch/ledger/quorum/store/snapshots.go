package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/coveyproject/covey/dispatch/ledger/quorum/raftlog"
	"github.com/coveyproject/covey/p2p/wire"
)

// Snapshots keeps raft's snapshots as raft's own store does, which checks a checksum of a
// snapshot's content whenever it is opened, but of nothing beside it. So what is beside it – which
// entry it is of, and the voters – is written once more at the beginning of the content. One
// without that was written by version 0.1, and is read as what convert makes of it, until the next
// is made.
type Snapshots struct {
	*raft.FileSnapshotStore
	dir     string // of the seat
	log     hclog.Logger
	sound   func(content []byte) error
	convert func(content []byte) ([]byte, error)
}

var _ raft.SnapshotStore = (*Snapshots)(nil)

// snapsKept is how many snapshots stay.
const snapsKept = 2

// OpenSnapshots opens or creates the snapshots in a folder. sound tells whether the content of one
// makes sense, and convert makes one of now of a content that version 0.1 wrote.
func OpenSnapshots(dir string, to *slog.Logger, sound func(content []byte) error, convert func(content []byte) ([]byte, error)) (*Snapshots, error) {
	logger := raftlog.New(to)
	s, err := raft.NewFileSnapshotStoreWithLogger(dir, snapsKept, logger)
	if err != nil {
		return nil, fmt.Errorf("open the ledger's snapshots in %s: %w", dir, err)
	}
	return &Snapshots{FileSnapshotStore: s, dir: dir, log: logger, sound: sound, convert: convert}, nil
}

// snapMagic begins the content of a snapshot; the length of the snapHead follows in four bytes, and
// that.
const snapMagic = "covey raft snapshot 2\n"

// maxSnapHead bounds it: five voters.
const maxSnapHead = 64 << 10

// snapHead is what raft keeps beside a snapshot.
type snapHead struct {
	Index         uint64 `cbor:"1,keyasint"`
	Term          uint64 `cbor:"2,keyasint"`
	Configuration []byte `cbor:"3,keyasint"` // as raft encodes it
	ConfigIndex   uint64 `cbor:"4,keyasint"`
}

func headOf(index, term uint64, conf raft.Configuration, confIndex uint64) ([]byte, error) {
	b, err := wire.Marshal(snapHead{Index: index, Term: term, Configuration: raft.EncodeConfiguration(conf), ConfigIndex: confIndex})
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32([]byte(snapMagic), uint32(len(b))), b...), nil
}

// Create implements raft.SnapshotStore.
func (s *Snapshots) Create(v raft.SnapshotVersion, index, term uint64, conf raft.Configuration, confIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	head, err := headOf(index, term, conf, confIndex)
	if err != nil {
		return nil, err
	}
	sink, err := s.FileSnapshotStore.Create(v, index, term, conf, confIndex, trans)
	if err != nil {
		return nil, err
	}
	if _, err := sink.Write(head); err != nil {
		return nil, errors.Join(err, sink.Cancel())
	}
	return sink, nil
}

// snapBody is the content of a snapshot behind its head.
type snapBody struct {
	io.Reader
	io.Closer
}

// Open implements raft.SnapshotStore.
func (s *Snapshots) Open(id string) (_ *raft.SnapshotMeta, _ io.ReadCloser, err error) {
	defer func() {
		if r := recover(); r != nil { // raft, on a file that makes no sense
			err = fmt.Errorf("snapshot %s is damaged: %v", id, r)
		}
	}()
	meta, file, err := s.FileSnapshotStore.Open(id)
	if err != nil {
		return nil, nil, err
	}
	body, err := s.behindHead(meta, file)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("snapshot %s is damaged: %w", id, err), file.Close())
	}
	return meta, snapBody{body, file}, nil
}

// behindHead reads the head of a snapshot and proves that meta says the same.
func (s *Snapshots) behindHead(meta *raft.SnapshotMeta, file io.Reader) (io.Reader, error) {
	begin := make([]byte, len(snapMagic)+4)
	n, err := io.ReadFull(file, begin)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if n < len(begin) || string(begin[:len(snapMagic)]) != snapMagic {
		return s.converted(meta, io.MultiReader(bytes.NewReader(begin[:n]), file))
	}
	size := binary.BigEndian.Uint32(begin[len(snapMagic):])
	if size > maxSnapHead {
		return nil, errors.New("its head is too long")
	}
	head := append(begin, make([]byte, size)...)
	if _, err := io.ReadFull(file, head[len(begin):]); err != nil {
		return nil, err
	}
	want, err := headOf(meta.Index, meta.Term, meta.Configuration, meta.ConfigurationIndex)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(head, want) {
		return nil, errors.New("what is said beside it is not what it says itself")
	}
	meta.Size -= int64(len(head))
	return file, nil
}

// converted is the content of a snapshot that version 0.1 wrote, as one of now.
func (s *Snapshots) converted(meta *raft.SnapshotMeta, file io.Reader) (io.Reader, error) {
	b, err := io.ReadAll(file)
	if err == nil && int64(len(b)) != meta.Size {
		err = fmt.Errorf("it has %d bytes, and should have %d", len(b), meta.Size)
	}
	if err == nil {
		b, err = s.convert(b)
	}
	meta.Size = int64(len(b))
	return bytes.NewReader(b), err
}

// Newer says of a snapshot that it is whole, and that this program is too old for it.
type Newer struct{ Why error }

// Error implements error.
func (n Newer) Error() string { return n.Why.Error() }

// keepSound puts the snapshots that cannot be read beside the others, where raft does not look, up
// to the newest one that can.
func (s *Snapshots) keepSound() error {
	names, err := s.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		err := s.prove(name.id)
		if newer := (Newer{}); err == nil || passing(err) || errors.As(err, &newer) {
			return err
		}
		s.log.Error("a snapshot of the ledger is damaged; it is put away", "snapshot", name.id, "error", err)
		if err := os.Rename(filepath.Join(s.dir, "snapshots", name.id), filepath.Join(s.dir, "damaged-"+name.id)); err != nil {
			return fmt.Errorf("put a damaged snapshot of the ledger away: %w", err)
		}
	}
	return nil
}

// prove reads a snapshot to its end.
func (s *Snapshots) prove(id string) error {
	meta, r, err := s.Open(id)
	if err != nil {
		return err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	switch {
	case err != nil:
		return err
	case int64(len(b)) != meta.Size:
		return fmt.Errorf("it has %d bytes, and should have %d", len(b), meta.Size)
	case meta.ID != id:
		return fmt.Errorf("it says that it is %s", meta.ID)
	}
	return s.sound(b)
}

// snapName is the name of a snapshot's folder, TERM-INDEX-TIME.
type snapName struct {
	id                string
	term, index, time uint64
}

// names lists the snapshots, the newest first, those that cannot be read included.
func (s *Snapshots) names() (out []snapName, err error) {
	files, err := os.ReadDir(filepath.Join(s.dir, "snapshots"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the ledger's snapshots: %w", err)
	}
	for _, f := range files {
		n := snapName{id: f.Name()}
		if _, err := fmt.Sscanf(n.id, "%d-%d-%d", &n.term, &n.index, &n.time); err != nil || !f.IsDir() || filepath.Ext(n.id) != "" {
			continue
		}
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b snapName) int {
		return slices.Compare([]uint64{b.term, b.index, b.time}, []uint64{a.term, a.index, a.time})
	})
	return out, nil
}
