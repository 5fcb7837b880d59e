package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/coveyproject/covey/node/blob/piece"
)

// The kinds of what is in tmp.
const (
	addKind  = "add-"
	goneKind = "gone-"
)

// scan makes the folders, removes what a process that was killed has left, and gets to know what is
// here.
func (s *Store) scan() error {
	for _, dir := range []string{partials, pinned, making} {
		if err := s.disk.mkdir(dir); err != nil {
			return err
		}
	}
	if err := s.disk.sync([]string{"."}); err != nil {
		return err
	}
	top, err := s.disk.list(".")
	if err != nil {
		return err
	}
	if err := s.scanTemp(); err != nil {
		return err
	}
	var all []scanned
	for _, dir := range top {
		switch {
		case dir.name == partials || dir.name == pinned || dir.name == making:
		case len(dir.name) == 2 && isHex(dir.name) && !dir.regular:
			if err := s.scanFolder(dir.name, &all); err != nil {
				return err
			}
		default:
			s.foreign++
		}
	}
	if err := s.scanPartials(&all); err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b scanned) int { return cmp.Compare(a.used, b.used) })
	for _, b := range all {
		s.shelf.blobs[b.root] = b.blob
		s.shelf.bytes += b.cost
		s.shelf.settle(b.blob)
	}
	if err := s.scanPins(); err != nil {
		return err
	}
	if s.shelf.quota < 0 {
		free, total, err := s.disk.room()
		if err != nil {
			return err
		}
		s.shelf.quota = fairShare(free+s.shelf.bytes, total)
	}
	s.mu.Lock()
	defer s.unlock()
	s.trim()
	return nil
}

// fairShare is the quota where nobody says one: a quarter of the disk, or what is free of it but
// for a tenth. What the store has itself counts as free, so that it does not shrink with every
// start.
func fairShare(free, total int64) int64 { return max(0, min(total/4, free-total/10)) }

// scanned is a blob that was found, and when it was used.
type scanned struct {
	*blob
	used int64
}

func isHex(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}

func (s *Store) scanTemp() error {
	entries, err := s.disk.list(making)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.regular && (strings.HasPrefix(e.name, addKind) || strings.HasPrefix(e.name, goneKind)) {
			s.discard(path.Join(making, e.name))
		} else {
			s.foreign++
		}
	}
	return nil
}

func (s *Store) scanFolder(dir string, all *[]scanned) error {
	entries, err := s.disk.list(dir)
	if errors.Is(err, fs.ErrPermission) {
		s.log.Warn("a folder of the store cannot be read", "folder", dir, "err", err)
		s.foreign++
		return nil
	}
	if err != nil {
		return err
	}
	here := map[piece.Root]bool{}
	var proofs []string
	for _, e := range entries {
		base, proof := strings.CutSuffix(e.name, proofEnd)
		root, ok := rootIn(base)
		switch {
		case !ok || !e.regular || base[:2] != dir:
			s.foreign++
		case proof:
			proofs = append(proofs, base)
		default:
			here[root] = true
			at := e.used.Unix()
			*all = append(*all, scanned{&blob{root: root, cost: costAt(e.size, e.taken), size: e.size, taken: e.taken, whole: true, touched: at}, e.used.UnixNano()})
		}
	}
	for _, base := range proofs {
		if root, _ := rootIn(base); !here[root] {
			s.discard(path.Join(dir, base) + proofEnd)
		}
	}
	return nil
}

// scanPartials takes up what is being fetched. A partial is a blob's file with the proof that it
// will be checked with; without either there is nothing to go on with.
func (s *Store) scanPartials(all *[]scanned) error {
	entries, err := s.disk.list(partials)
	if err != nil {
		return err
	}
	whole := map[piece.Root]*blob{}
	for _, b := range *all {
		whole[b.root] = b.blob
	}
	data, proofs := map[piece.Root]found{}, map[piece.Root]bool{}
	var roots []piece.Root
	for _, e := range entries {
		base := strings.TrimSuffix(strings.TrimSuffix(e.name, proofEnd), mapEnd)
		root, ok := rootIn(base)
		if !ok || !e.regular {
			s.foreign++
			continue
		}
		roots = append(roots, root)
		switch e.name {
		case base:
			data[root] = e
		case base + proofEnd:
			proofs[root] = true
		}
	}
	slices.SortFunc(roots, func(a, b piece.Root) int { return slices.Compare(a[:], b[:]) })
	for _, root := range slices.Compact(roots) {
		e, ok := data[root]
		var p *partial
		if w := whole[root]; w != nil {
			s.adopt(w)
		} else if ok && proofs[root] {
			if p, err = s.loadPartial(root); err != nil {
				s.log.Warn("what was fetched of a file cannot be used", "blob", root, "err", err)
			}
		}
		if p == nil {
			for _, end := range []string{"", proofEnd, mapEnd} {
				s.discard(partName(root) + end)
			}
			continue
		}
		*all = append(*all, scanned{&blob{root: root, cost: costOf(p.blob.Size()), part: p}, e.used.UnixNano()})
	}
	return nil
}

// adopt gives a whole blob the proof it was fetched with, if it was killed between the two.
func (s *Store) adopt(b *blob) {
	if piece.Entries(b.size) == 0 {
		return
	}
	if f, err := s.disk.open(wholeName(b.root) + proofEnd); err == nil {
		_ = f.Close()
		return
	}
	_ = s.disk.rename(partName(b.root)+proofEnd, wholeName(b.root)+proofEnd)
}

func (s *Store) loadPartial(root piece.Root) (*partial, error) {
	data, err := s.readAll(partName(root)+proofEnd, maxProof)
	if err != nil {
		return nil, err
	}
	blob, err := decodeProof(root, data)
	if err != nil {
		return nil, err
	}
	have, err := s.readAll(partName(root)+mapEnd, maxMap)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return newPartial(blob, decodeMap(blob.Pieces(), have)), nil
}

// What the largest blob needs.
const (
	maxProof = int64(len(proofMagic)) + 8 + 32*(piece.MaxSize/piece.Size)
	maxMap   = int64(len(mapMagic)) + piece.MaxSize/piece.Size/8
	maxPin   = 1 << 28
)

// readAll reads a small file.
func (s *Store) readAll(name string, most int64) ([]byte, error) {
	f, err := s.disk.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := f.size()
	if err != nil {
		return nil, err
	}
	if n > most {
		return nil, fmt.Errorf("%s has %d bytes, and cannot have so many", name, n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(f, 0, n), b); err != nil {
		return nil, err
	}
	return b, nil
}

// replace writes a small file so that it is whole or the one before; it is not synced.
func (s *Store) replace(name string, data []byte, mode fs.FileMode) error {
	tmp := s.temp(addKind)
	if err := s.writeNew(tmp, data, mode); err != nil {
		return err
	}
	if err := s.disk.rename(tmp, name); err != nil {
		s.discard(tmp)
		return err
	}
	return nil
}

// writeNew writes a small file of tmp, or none.
func (s *Store) writeNew(tmp string, data []byte, mode fs.FileMode) error {
	f, err := s.disk.create(tmp, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err = errors.Join(err, f.Close()); err != nil {
		s.discard(tmp)
	}
	return err
}
