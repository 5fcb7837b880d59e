package jobfile_test

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/taskstate/jobfile"

	"github.com/rogpeppe/go-internal/txtar"
)

// lists stands for the disk: what each_line may name in these tests.
func lists(path string) ([]byte, error) {
	files := map[string]string{
		"list.txt": "a.jpg\nb c.jpg\r\n\n  \nlast", "empty.txt": "\n\n", "binary.txt": "ok\nalso ok\n\xff\x00\n", "sub/list.txt": "below",
		"zero.txt": "a\x00b",
	}
	if s, ok := files[path]; ok {
		return []byte(s), nil
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}

func TestEveryFaultIsExplainedWhereItStands(t *testing.T) {
	const path = "testdata/errors.txtar"
	a, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(a.Files); i += 2 {
		in, want := a.Files[i], &a.Files[i+1]
		t.Run(in.Name, func(t *testing.T) {
			_, err := jobfile.Parse(in.Name, in.Data, jobfile.Options{ReadFile: lists})
			if err == nil {
				t.Fatal("it was accepted")
			}
			got := err.Error() + "\n"
			if golden.Updating() {
				want.Data = []byte(got)
				return
			}
			if got != string(want.Data) {
				t.Errorf("it says\n%swant\n%s", got, want.Data)
			}
			for line := range strings.Lines(got) {
				if !strings.HasPrefix(line, in.Name+":") {
					t.Errorf("a line without its place: %q", line)
				}
			}
		})
	}
	if golden.Updating() {
		if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
