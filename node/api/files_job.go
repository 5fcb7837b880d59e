package api

import (
	"bufio"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/tree"
)

// KeptFiles answers GET /v1/jobs/{id}/files: what is kept now of what a job's tasks left, in the
// order of its tasks. With ?slot=N only of that task; with ?partial=1 also of those that failed.
type KeptFiles struct {
	Files []KeptFile `json:"files"`
	AsOf  time.Time  `json:"as_of"`
}

// KeptFile is a file, folder or link that a task left.
type KeptFile struct {
	Slot   int       `json:"slot"`
	Path   string    `json:"path"` // below its folder
	Kind   string    `json:"kind"`
	Mode   string    `json:"mode,omitempty"` // of a file: 0755 if it may be executed, else 0644
	Size   int64     `json:"size"`
	Ref    *tree.Ref `json:"ref,omitempty"` // of a file: as POST /v1/files/get and `peer get` take it
	Target string    `json:"target,omitempty"`
}

func keptFileOf(slot int, e tree.Entry) KeptFile {
	f := KeptFile{Slot: slot, Path: strings.ToValidUTF8(e.Path, "�"), Kind: e.Kind.String(), Size: e.Size, Target: strings.ToValidUTF8(e.Target, "�")}
	if e.Kind == tree.File {
		f.Mode, f.Ref = "0644", &tree.Ref{Root: e.Root}
		if e.Exec {
			f.Mode = "0755"
		}
	}
	return f
}

// jobFiles lists what the tasks of a job left. There may be millions: they are written as they are
// read, once it is known that all can be.
func jobFiles() Call { return custom[KeptFiles](listJobFiles, Backend.ListFiles) }

func listJobFiles(backend Backend, w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	only, err := strconv.Atoi(cmp.Or(q.Get("slot"), "0"))
	if err != nil || only < 0 {
		fail(w, Errorf(Usage, "slot: expected the number of a task, got %q", q.Get("slot")))
		return
	}
	tasks, err := backend.Tasks(r.Context(), r.PathValue("id"))
	if err != nil {
		fail(w, err)
		return
	}
	var slots []int
	var trees []piece.Root
	take := func(some []Task) {
		for _, t := range some {
			if o := t.Output; o != nil && o.Ref != nil && (only == 0 || t.Slot == only) && (!o.Partial || q.Get("partial") == "1") {
				slots, trees = append(slots, t.Slot), append(trees, o.Ref.Root)
			}
		}
	}
	take(tasks.Tasks)
	if tasks.More != nil {
		for some, err := range tasks.More {
			if err != nil {
				fail(w, err)
				return
			}
			take(some)
		}
	}
	out := bufio.NewWriter(w)
	next := `{"files":[`
	begin := func() { w.Header().Set("Content-Type", "application/json") }
	err = backend.ListFiles(r.Context(), trees, func(i int, e tree.Entry) error {
		begin()
		b, err := json.Marshal(keptFileOf(slots[i], e))
		if err == nil {
			_, _ = out.WriteString(next) // Write says it, too
			_, err = out.Write(b)
		}
		next = ","
		return err
	})
	switch at, _ := json.Marshal(tasks.AsOf); {
	case err != nil && next != ",":
		fail(w, err)
	case err != nil: // what is cut off is no JSON, so that nobody takes it for all there is
		_ = out.Flush()
	default:
		begin()
		_, _ = io.WriteString(out, strings.TrimPrefix(next, ",")+`],"as_of":`+string(at)+"}\n")
		_ = out.Flush()
	}
}
