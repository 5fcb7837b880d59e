// Package memjournal is a worker's journal in memory, for tests: the twin of the file that package
// journal keeps.
package memjournal

import (
	"bytes"
	"maps"
	"slices"

	"github.com/coveyproject/covey/dispatch/worker/journal"
)

// Journal is the records of a journal, by bucket and key. It implements journal.KV.
type Journal map[string]map[string][]byte

// New is an empty journal.
func New(owner journal.Owner) (Journal, error) {
	j := Journal{}
	return j, journal.Init(j, journal.Head{Owner: owner})
}

// Clone is the journal as it is now: what a crash leaves if nothing after this was synced.
func (j Journal) Clone() Journal {
	c := Journal{}
	for k, b := range j {
		c[k] = maps.Clone(b) // values are never changed in place
	}
	return c
}

// Records counts what is in the journal besides what it says about itself and the tombstones, which
// have a bound of their own.
func (j Journal) Records() (n int) {
	for k, b := range j {
		if k != journal.BucketTombs && k != journal.BucketMeta {
			n += len(b)
		}
	}
	return n
}

// Put implements journal.KV.
func (j Journal) Put(bucket string, key, value []byte) error {
	if j[bucket] == nil {
		j[bucket] = map[string][]byte{}
	}
	j[bucket][string(key)] = bytes.Clone(value)
	return nil
}

// Delete implements journal.KV.
func (j Journal) Delete(bucket string, key []byte) error {
	delete(j[bucket], string(key))
	return nil
}

// Each implements journal.KV.
func (j Journal) Each(bucket string, f func(key, value []byte) error) error {
	for _, k := range slices.Sorted(maps.Keys(j[bucket])) {
		if err := f([]byte(k), j[bucket][k]); err != nil {
			return err
		}
	}
	return nil
}
