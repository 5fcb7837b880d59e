package admission

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/p2p/wire"
)

// wholeFiles are the roster's file and that of the seats, as they are written.
func wholeFiles(t testing.TB) (roster, seats []byte) {
	t.Helper()
	var e Entry
	golden.Fill(reflect.ValueOf(&e).Elem(), 1, nil)
	e.Cluster, e.Roles = "c", []Role{Worker}
	roster, err := encodeRoll(&roll{cluster: "c", entries: map[string]Entry{e.Peer: e}})
	if err != nil {
		t.Fatal(err)
	}
	var f seatsFile
	golden.Fill(reflect.ValueOf(&f).Elem(), 1, nil)
	c := &SeatChain{path: filepath.Join(t.TempDir(), "seats"), chain: f.Chain, now: f.Now, dirty: true}
	if err := c.Save(); err != nil {
		t.Fatal(err)
	}
	if seats, err = os.ReadFile(c.path); err != nil {
		t.Fatal(err)
	}
	return roster, seats
}

// What was written is read for ever.
func TestRosterAndSeatsAreWrittenAsTheyAlwaysWere(t *testing.T) {
	roster, seats := wholeFiles(t)
	if err := golden.Check("testdata/files.txt", fmt.Sprintf("roster: %s\nseats: %s\n", hex.EncodeToString(roster), hex.EncodeToString(seats))); err != nil {
		t.Fatal(err)
	}
}

func TestNoFlippedBitMakesARosterOrSeatsOthers(t *testing.T) {
	roster, seats := wholeFiles(t)
	for name, c := range map[string]struct {
		whole  []byte
		decode func([]byte) error
	}{
		"roster": {roster, func(b []byte) error { _, err := decodeRoll(b); return err }},
		"seats":  {seats, func(b []byte) error { _, err := decodeSeats(b); return err }},
	} {
		if err := c.decode(c.whole); err != nil {
			t.Fatal(name, err)
		}
		for i := range 8 * len(c.whole) {
			torn := slices.Clone(c.whole)
			torn[i/8] ^= 1 << (i % 8)
			if c.decode(torn) == nil {
				t.Fatalf("%s with bit %d flipped is believed", name, i)
			}
		}
		for n := range c.whole {
			if c.decode(c.whole[:n]) == nil {
				t.Fatalf("%s cut after %d bytes is believed", name, n)
			}
		}
	}
}

func FuzzARosterFromDiskNeverPanics(f *testing.F) {
	roster, _ := wholeFiles(f)
	body, err := summed(rosterMagic, roster)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Fuzz(func(t *testing.T, body []byte) {
		l, err := decodeRoll(withSum(rosterMagic, body)) // past the checksum, to the decoder
		if err != nil {
			return
		}
		again, err := encodeRoll(l)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := decodeRoll(again); err != nil || !reflect.DeepEqual(back, l) {
			t.Fatalf("%+v and %+v, %v", l, back, err)
		}
	})
}

func FuzzSeatsFromDiskNeverPanic(f *testing.F) {
	_, seats := wholeFiles(f)
	body, err := summed(seatsMagic, seats)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := decodeSeats(withSum(seatsMagic, body))
		if err != nil {
			return
		}
		c := &SeatChain{chain: s.Chain, now: s.Now}
		c.ShortProof(8)
		if _, err := wire.Marshal(seatsFile{c.Proof(), c.Now()}); err != nil {
			t.Fatal(err)
		}
	})
}
