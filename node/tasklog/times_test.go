package tasklog

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/runner/supervise"
)

// note says when the output up to an offset was there.
func (o *owner) note(stream string, end, at int64) {
	o.t.Helper()
	o.write(supervise.TimesFile(stream), string(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(end)), uint64(at))))
}

// age says when a stream was last written to.
func (o *owner) age(stream string, at int64) {
	o.t.Helper()
	rel, err := task.Folder()
	if err == nil {
		err = os.Chtimes(filepath.Join(o.dir, rel, stream), time.Time{}, time.UnixMilli(at))
	}
	if err != nil {
		o.t.Fatal(err)
	}
}

func TestChunksSayWhenTheyWereWritten(t *testing.T) {
	o := newOwner(t, 0, false)
	o.write(Stdout, "one\ntwo\nthree\nfour\n")
	o.note(Stdout, 4, 1000)
	o.note(Stdout, 10, 2000)
	o.age(Stdout, 3000)
	type piece struct {
		text string
		at   int64
	}
	var got []piece
	req := Request{Task: task, Parts: []Part{{Stream: Stdout}}, Times: true}
	err := o.store.Copy(t.Context(), req, func(c Chunk) error {
		if len(c.Data) > 0 {
			got = append(got, piece{string(c.Data), c.At})
		}
		return nil
	})
	if want := []piece{{"one\n", 1000}, {"two\nth", 2000}, {"ree\nfour\n", 3000}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v; %v", got, err)
	}
}

func TestSinceBeginsWithTheFirstWholeLineOfAMoment(t *testing.T) {
	o := newOwner(t, 0, false)
	o.write(Stdout, "one\ntwo\nthree\nfour\n")
	o.note(Stdout, 4, 1000)
	o.note(Stdout, 10, 2000)
	o.age(Stdout, 3000)
	for since, want := range map[int64]string{
		1: "one\ntwo\nthree\nfour\n", 1000: "one\ntwo\nthree\nfour\n", 1001: "two\nthree\nfour\n", 2001: "four\n", 3001: "",
	} {
		var g got
		req := Request{Task: task, Parts: []Part{{Stream: Stdout}}, Since: since}
		if err := o.store.Copy(t.Context(), req, g.chunk); err != nil || g.of(Stdout) != want {
			t.Errorf("since %d: %q, want %q; %v", since, g.of(Stdout), want, err)
		}
	}
	var g got
	req := Request{Task: task, Parts: []Part{{Stream: Stdout, Offset: 8}}, Since: 3001, Tail: 1}
	if err := o.store.Copy(t.Context(), req, g.chunk); err != nil || g.of(Stdout) != "three\nfour\n" {
		t.Errorf("a reader that goes on gets %q; %v", g.of(Stdout), err)
	}
}

// What was written without notes, by a peer that took none, is dated by the file.
func TestOutputWithoutNotesIsDatedByItsFile(t *testing.T) {
	o := newOwner(t, 0, false)
	o.write(Stdout, "old\n")
	o.age(Stdout, 5000)
	req := Request{Task: task, Parts: []Part{{Stream: Stdout}}, Times: true}
	err := o.store.Copy(t.Context(), req, func(c Chunk) error {
		if c.At != 5000 && len(c.Data) > 0 {
			t.Errorf("%q is dated %d", c.Data, c.At)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
