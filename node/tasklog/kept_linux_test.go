package tasklog

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// drop gives the disk back the beginning of a stream, as the supervisor does with that of a
// service.
func (o *owner) drop(stream string, n int64) {
	o.t.Helper()
	rel, err := task.Folder()
	if err != nil {
		o.t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(o.dir, rel, stream), os.O_WRONLY, 0)
	if err != nil {
		o.t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE|unix.FALLOC_FL_PUNCH_HOLE, 0, n); err != nil {
		o.t.Skip("this disk cannot give back the beginning of a file:", err)
	}
}

// What a service has dropped is not shown as zeros; a reader goes on meanwhile with what is
// kept, at the offsets it has always had.
func TestAReaderGoesOnWhereTheOldestOutputWasDropped(t *testing.T) {
	const block = 64 << 10
	o := newOwner(t, 0, true)
	o.write(Stdout, string(bytes.Repeat([]byte("a"), 3*block)))
	var dropped, at int64
	var read []byte
	step := 0
	err := o.store.Copy(context.Background(), Request{Task: task, Parts: []Part{{Stream: Stdout}}, Follow: true}, func(c Chunk) error {
		if c.Offset-c.Dropped != at {
			t.Errorf("a chunk at %d after %d dropped, want %d", c.Offset, c.Dropped, at)
		}
		at = c.Offset + int64(len(c.Data))
		dropped += c.Dropped
		read = append(read, c.Data...)
		if step++; step == 1 {
			o.write(Stdout, string(bytes.Repeat([]byte("b"), 3*block)))
			o.drop(Stdout, 4*block)
			close(o.over)
		}
		return nil
	})
	want := append(bytes.Repeat([]byte("a"), MaxChunk), bytes.Repeat([]byte("b"), 2*block)...)
	if err != nil || !bytes.Equal(read, want) || dropped != 4*block-MaxChunk {
		t.Errorf("%d bytes are read, %d dropped, %v", len(read), dropped, err)
	}
	expected := expecting(Request{Parts: []Part{{Stream: Stdout, Offset: 10}}})
	if err := expected.accept(&Chunk{Stream: Stdout, Offset: 30, Dropped: 20}); err != nil {
		t.Error(err)
	}
	for _, c := range []Chunk{{Stream: Stdout, Offset: 31}, {Stream: Stdout, Offset: 40, Dropped: -5}, {Stream: Stdout, Offset: 35, Dropped: 40}} {
		if err := expected.accept(&c); err == nil {
			t.Errorf("%+v was taken after 30", c)
		}
	}
}

func TestTheLastLinesOfAServiceEndWhereItsOutputWasDropped(t *testing.T) {
	const block = 64 << 10
	o := newOwner(t, 0, false)
	o.write(Stdout, string(bytes.Repeat([]byte("a\n"), block/2))+"one\ntwo\n")
	o.drop(Stdout, block)
	var read []byte
	if err := o.store.Copy(context.Background(), Request{Task: task, Parts: []Part{{Stream: Stdout}}, Tail: 10}, func(c Chunk) error {
		read = append(read, c.Data...)
		return nil
	}); err != nil || string(read) != "one\ntwo\n" {
		t.Errorf("%q, %v", read, err)
	}
}
