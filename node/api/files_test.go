package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/tree"
)

// keeper is a backend of files in memory.
type keeper struct {
	api.Backend
	blobs map[piece.Root][]byte
	end   api.PutEnd
	cut   error // what reading ended with
	get   func(q api.GetFiles, out *api.FileWriter) error
}

func (k *keeper) PutFiles(_ context.Context, in *api.PutReader) (v api.Put, err error) {
	for {
		b, r, err := in.Next()
		if errors.Is(err, io.EOF) {
			k.end = in.End
			return api.Put{Ref: in.End.Ref, Missing: v.Missing}, nil
		}
		if err != nil {
			k.cut = err
			return v, err
		}
		if r == nil {
			v.Missing++
			continue
		}
		if b.Path == "skipped" {
			continue // whoever does not read it goes on behind it
		}
		data, err := io.ReadAll(r)
		if err != nil {
			k.cut = err
			return v, err
		}
		if piece.Sum(data) != b.Blob {
			return v, api.Errorf(api.Conflict, "%s is another", b.Path)
		}
		k.blobs[b.Blob] = data
	}
}

func (k *keeper) GetFiles(_ context.Context, q api.GetFiles, out *api.FileWriter) error {
	return k.get(q, out)
}

func TestWhatIsPutArrivesAsItWasRead(t *testing.T) {
	k := &keeper{blobs: map[piece.Root][]byte{}}
	c, _, _ := serve(t, k)
	large, small := bytes.Repeat([]byte("0123456789\n"), 500_000), []byte("{}\n\n")
	ref := tree.Ref{Root: piece.Sum(small), Dir: true}
	v, err := c.PutFiles(t.Context(), func(w *api.PutWriter) error {
		for path, data := range map[string][]byte{"large": large, "small": small, "none": nil, "skipped": large} {
			if err := w.Blob(api.PutBlob{Blob: piece.Sum(data), Size: int64(len(data)), Path: path}, bytes.NewReader(data)); err != nil {
				return err
			}
		}
		if err := w.Blob(api.PutBlob{Blob: piece.Sum([]byte("away")), Size: 4}, nil); err != nil {
			return err
		}
		return w.End(api.PutEnd{Ref: ref, Name: "n\"ä", For: 3})
	})
	if err != nil || v.Ref != ref || v.Missing != 1 || k.end != (api.PutEnd{Ref: ref, Name: "n\"ä", For: 3}) {
		t.Fatalf("%+v, %+v, %v", v, k.end, err)
	}
	for _, data := range [][]byte{large, small, nil} {
		if got, ok := k.blobs[piece.Sum(data)]; !ok || !bytes.Equal(got, data) {
			t.Errorf("of %d bytes %d came", len(data), len(got))
		}
	}
}

func TestAPutThatCannotBeReadToItsEndKeepsNothing(t *testing.T) {
	for name, write := range map[string]func(w *api.PutWriter) error{
		"a file that cannot be read": func(w *api.PutWriter) error {
			return w.Blob(api.PutBlob{Size: 3}, iotest.ErrReader(errors.New("bad disk")))
		},
		"a file that became shorter": func(w *api.PutWriter) error {
			return w.Blob(api.PutBlob{Size: 3}, strings.NewReader("ab"))
		},
		"one that stopped": func(*api.PutWriter) error { return errors.New("no more") },
	} {
		k := &keeper{blobs: map[piece.Root][]byte{}}
		c, srv, _ := serve(t, k)
		_, err := c.PutFiles(t.Context(), write)
		if err == nil || strings.Contains(err.Error(), "went away") {
			t.Errorf("%s: %v", name, err)
		}
		srv.Close()
		if len(k.blobs) > 0 || k.end.Name != "" {
			t.Errorf("%s: it was taken for whole", name)
		}
	}
}

func TestARefusedPutSaysWhyHoweverMuchWasToFollow(t *testing.T) {
	k := &keeper{blobs: map[piece.Root][]byte{}}
	c, _, _ := serve(t, k)
	_, err := c.PutFiles(t.Context(), func(w *api.PutWriter) error {
		for range 200 {
			data := make([]byte, piece.Size)
			if err := w.Blob(api.PutBlob{Size: piece.Size, Path: "x"}, bytes.NewReader(data)); err != nil {
				return err
			}
		}
		return w.End(api.PutEnd{})
	})
	if e := api.AsError(err); e == nil || e.Code != api.Conflict || e.Message != "x is another" {
		t.Error(err)
	}
}

func TestWhatIsGotComesInPiecesWithWordsBetween(t *testing.T) {
	a, b := bytes.Repeat([]byte("\n{"), piece.Size), []byte("b")
	k := &keeper{get: func(q api.GetFiles, out *api.FileWriter) error {
		if !q.Files || q.Skips(0) || !q.Skips(1) || q.Skips(9) || q.Skips(99) {
			t.Errorf("%+v", q)
		}
		for _, data := range [][]byte{a, nil, b} {
			if err := out.Blob(piece.Sum(data), int64(len(data))); err != nil {
				return err
			}
			for len(data) > 0 {
				n := min(len(data), piece.Size-7)
				if err := errors.Join(out.Fetching(api.Fetching{Bytes: int64(n)}), out.Bytes(data[:n])); err != nil {
					return err
				}
				data = data[n:]
			}
		}
		return nil
	}}
	c, _, _ := serve(t, k)
	for _, read := range []bool{true, false} {
		r, err := c.GetFiles(t.Context(), api.GetFiles{Files: true, Skip: []byte{2}})
		if err != nil {
			t.Fatal(err)
		}
		heard := 0
		r.Heard = func(api.Fetching) { heard++ }
		for _, data := range [][]byte{a, nil, b} {
			root, size, err := r.Next()
			if err != nil || root != piece.Sum(data) || size != int64(len(data)) {
				t.Fatal(root, size, err)
			}
			if read { // or it is left
				if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data) {
					t.Fatalf("%d bytes of %d, %v", len(got), len(data), err)
				}
			}
		}
		if _, _, err := r.Next(); !errors.Is(err, io.EOF) || heard != 4 {
			t.Error(err, heard)
		}
		r.Close()
	}
}

func TestAGetThatFailsInTheMiddleSaysWhy(t *testing.T) {
	for name, fails := range map[string]func(out *api.FileWriter) error{
		"at once": func(*api.FileWriter) error { return api.Errorf(api.NoCoordinator, "nobody") },
		"before the first byte": func(out *api.FileWriter) error {
			return errors.Join(out.Blob(piece.Root{1}, 5), api.Errorf(api.NoCoordinator, "nobody"))
		},
		"in the middle": func(out *api.FileWriter) error {
			return errors.Join(out.Blob(piece.Root{1}, 5), out.Bytes([]byte("ab")), api.Errorf(api.NoCoordinator, "nobody"))
		},
	} {
		c, _, _ := serve(t, &keeper{get: func(_ api.GetFiles, out *api.FileWriter) error { return fails(out) }})
		r, err := c.GetFiles(t.Context(), api.GetFiles{})
		if err == nil {
			if _, _, err = r.Next(); err == nil {
				_, err = io.ReadAll(r)
			}
			r.Close()
		}
		if e := api.AsError(err); e == nil || e.Code != api.NoCoordinator || e.Message != "nobody" {
			t.Errorf("%s: %v", name, err)
		}
	}
	// An end that comes too early is no end.
	c, _, _ := serve(t, &keeper{get: func(_ api.GetFiles, out *api.FileWriter) error { return out.Blob(piece.Root{1}, 5) }})
	r, err := c.GetFiles(t.Context(), api.GetFiles{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); err == nil {
		t.Error("what was cut off was taken for whole")
	}
}

func FuzzAPut(f *testing.F) {
	line := fmt.Sprintf(`{"blob":"b3:%064d","size":3,"sent":true}`, 0)
	f.Add([]byte(line + "\nabc" + `{"end":{"ref":"b3:` + strings.Repeat("0", 64) + `","name":"n"}}` + "\n"))
	f.Add([]byte(line + "\nab"))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r, total := api.NewPutReader(bytes.NewReader(in)), 0
		for {
			b, content, err := r.Next()
			if err != nil {
				if _, _, again := r.Next(); !errors.Is(again, err) {
					t.Fatalf("after %v it went on: %v", err, again)
				}
				return
			}
			if content == nil {
				continue
			}
			n, err := io.Copy(io.Discard, content)
			if total += int(n); n > b.Size || total > len(in) || err != nil {
				t.Fatalf("%d bytes of %d, %d of %d in all, %v", n, b.Size, total, len(in), err)
			}
		}
	})
}
