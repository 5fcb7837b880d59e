package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/coveyproject/covey/node/blob/piece"
)

// Pin keeps whole blobs together, over restarts, until a time or until it is unpinned. A pin of the
// same name gives way to it.
func (s *Store) Pin(p Pin) error { return s.PinAll(p) }

// PinAll is Pin of several, by one sync for all. When it fails, some may be there.
func (s *Store) PinAll(pins ...Pin) error {
	if len(pins) == 0 {
		return nil
	}
	var held []*blob
	defer func() { s.release(held...) }()
	files := make([][]byte, len(pins))
	for i := range pins {
		p := &pins[i]
		if !pinName(p.Name) {
			return fmt.Errorf("a pin cannot have the name %.130q: it takes letters, digits, '.', '_' and '-'", p.Name)
		}
		p.Roots = slices.Clone(p.Roots)
		slices.SortFunc(p.Roots, func(a, b piece.Root) int { return slices.Compare(a[:], b[:]) })
		p.Roots = slices.Compact(p.Roots)
		data, err := encodePin(*p)
		if err != nil {
			return err
		}
		files[i] = data
		for _, root := range p.Roots {
			b, _, err := s.take(root, true)
			if err != nil {
				return err
			}
			held = append(held, b)
		}
	}
	if err := s.settled(held); err != nil {
		return err
	}
	s.pinning.Lock()
	defer s.pinning.Unlock()
	if err := s.writePins(pins, files); err != nil {
		var n int64
		for _, data := range files {
			n += int64(len(data))
		}
		return s.full(fmt.Errorf("pin %s: %w", pins[0].Name, err), n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range pins {
		s.setPin(p)
	}
	return nil
}

// writePins brings pins to the disk.
func (s *Store) writePins(pins []Pin, files [][]byte) (err error) {
	var made []string
	defer func() {
		if err != nil {
			for _, name := range made {
				s.discard(name)
			}
		}
	}()
	for _, data := range files {
		name := s.temp(addKind)
		if err := s.writeNew(name, data, writeMode); err != nil {
			return err
		}
		made = append(made, name)
	}
	if err := s.disk.sync(made); err != nil {
		return err
	}
	for i, p := range pins {
		if err := s.disk.rename(made[i], path.Join(pinned, p.Name)); err != nil {
			return err
		}
	}
	return s.disk.sync([]string{pinned})
}

// PinNamed is the pin of this name, if there is one; its roots are shared and must not be changed.
func (s *Store) PinNamed(name string) (Pin, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.pins[name]
	return p, ok
}

// setPin counts a pin; the lock is held.
func (s *Store) setPin(p Pin) {
	for _, root := range p.Roots {
		s.shelf.pin(root)
	}
	for _, root := range s.pins[p.Name].Roots {
		s.shelf.unpin(root)
	}
	s.pins[p.Name] = p
	s.repinned.Set()
}

// Unpin ends a pin. What nobody needs then may go.
func (s *Store) Unpin(name string) error {
	s.pinning.Lock()
	defer s.pinning.Unlock()
	s.mu.Lock()
	p, ok := s.pins[name]
	s.mu.Unlock()
	if !ok {
		return fmt.Errorf("pin %.130q: %w", name, ErrAbsent)
	}
	file := path.Join(pinned, name)
	if err := s.disk.remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := s.disk.sync([]string{pinned})
	s.mu.Lock()
	defer s.unlock()
	for _, root := range p.Roots {
		s.shelf.unpin(root)
	}
	delete(s.pins, name)
	s.repinned.Set()
	s.trim()
	return err
}

// Pins lists them by name; their roots are shared and must not be changed.
func (s *Store) Pins() []Pin {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.pins), func(a, b Pin) int { return cmp.Compare(a.Name, b.Name) })
}

// scanPins reads them. One that is damaged, or of a later version, is named and left where it is.
func (s *Store) scanPins() error {
	entries, err := s.disk.list(pinned)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.regular || !pinName(e.name) {
			s.foreign++
			continue
		}
		name := path.Join(pinned, e.name)
		data, err := s.readAll(name, maxPin)
		if err != nil {
			return err // it may be readable later, and is not to be forgotten now
		}
		p, err := decodePin(e.name, data)
		if err != nil {
			s.log.Error("a pin cannot be read: what it kept may be removed when there is no room", "pin", e.name, "err", err)
			s.foreign++
			continue
		}
		s.setPin(p)
	}
	return nil
}
