package audit

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/golden"
)

// The file of one version is read by another.
func TestTheLinesOfALogStayWhatTheyAre(t *testing.T) {
	path, uid := filepath.Join(t.TempDir(), "audit.log"), 1000
	l := begin(t, path, 0)
	at := time.UnixMilli(1700000000123)
	l.Write(Record{Time: at, What: Began, By: "12D3KooWA", Detail: "version 0.2.0"})
	l.Write(Record{Time: at, What: OrderTaken, By: "12D3KooWB", Job: "k3v5q7x2ab", Task: "k3v5q7x2ab.1.1", Rule: "2"})
	l.Write(Record{Time: at, What: API, By: "12D3KooWB", Task: "k3v5q7x2ab.1.1", Call: "POST /v1/tickets", Outcome: "refused", UID: &uid, PID: 7, Detail: "no"})
	l.stop()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := golden.Check("testdata/audit.log", string(b)); err != nil {
		t.Error(err)
	}
	if _, v := rows(t, "testdata/audit.log"); v.Broken != "" || v.Last != 3 {
		t.Errorf("%+v", v)
	}
}

func FuzzRead(f *testing.F) {
	whole, err := os.ReadFile("testdata/audit.log")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, text []byte) {
		var v Findings
		n := 0
		err := v.read(bytes.NewReader(text), "f", true, func(Record) error { n++; return nil })
		if err == nil && n != v.Records {
			t.Errorf("%d records, %+v", n, v)
		}
		if _, _, size, err := ends(bytes.NewReader(text)); err != nil || size > int64(len(text)) || size > 0 && text[size-1] != '\n' {
			t.Errorf("it ends at %d of %d, %v", size, len(text), err)
		}
	})
}
