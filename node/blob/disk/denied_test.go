package disk

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/tree"
)

func TestADiskThatDeniesIsAnErrorAndAFileThatCannotBeReadIsNot(t *testing.T) {
	c := &collect{}
	no := &fs.PathError{Op: "openat", Path: "b", Err: fs.ErrPermission}
	if err := c.denied("d/b", true, unread{no}); err != nil || len(c.out.Refused) != 1 || c.out.Refused[0] != `"d/b": permission denied` {
		t.Errorf("%+v, %v", c.out, err)
	}
	if err := c.denied("d/b", true, unread{fs.ErrInvalid}); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "b"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	root := root(t, dir)
	defer root.Close()
	all, err := tree.ParseGlob("*")
	if err != nil {
		t.Fatal(err)
	}
	full := func(context.Context, tree.Entry, io.Reader) (piece.Root, int64, error) { return piece.Root{}, 0, no }
	out, err := Collect(t.Context(), root, []tree.Glob{all}, nil, nil, full, func(tree.Entry) error { return nil })
	if !errors.Is(err, fs.ErrPermission) || len(out.Refused) > 0 {
		t.Errorf("%+v, %v", out, err)
	}
}
