package api

import (
	"encoding/json"
	"io"
	"iter"
	"time"

	"github.com/coveyproject/covey/node/blob/tree"
)

// Tasks answers GET /v1/jobs/{id}/tasks.
type Tasks struct {
	Tasks []Task    `json:"tasks"`
	AsOf  time.Time `json:"as_of"`

	// Of a page: how many there are on all, and what to ask for the next one with; "": that is the
	// last.
	All  int    `json:"all,omitempty"`
	Next string `json:"next,omitempty"`

	// More, if it is there, yields further tasks, some at a time: a backend need not hold a million
	// of them at once. An error cuts the answer off. Clients get them all in Tasks.
	More iter.Seq2[[]Task, error] `json:"-"`
}

// writeTo writes the answer as it comes. What is cut off is no JSON, so that nobody takes it for
// all there is.
func (t Tasks) writeTo(w io.Writer) error {
	if t.More == nil {
		if t.Tasks == nil {
			t.Tasks = []Task{} // a list, also when it is empty
		}
		return json.NewEncoder(w).Encode(t)
	}
	comma := `{"tasks":[`
	some := func(tasks []Task) error {
		for _, x := range tasks {
			b, err := json.Marshal(x)
			if err == nil {
				_, err = w.Write(append([]byte(comma), b...))
			}
			if err != nil {
				return err
			}
			comma = ","
		}
		return nil
	}
	if err := some(t.Tasks); err != nil {
		return err
	}
	for tasks, err := range t.More {
		if err == nil {
			err = some(tasks)
		}
		if err != nil {
			return err
		}
	}
	if comma != "," { // there were none
		if _, err := io.WriteString(w, comma); err != nil {
			return err
		}
	}
	at, err := json.Marshal(t.AsOf)
	if err == nil {
		_, err = w.Write(append(append([]byte(`],"as_of":`), at...), "}\n"...))
	}
	return err
}

// Output is what is kept of the files of a task that has ended.
type Output struct {
	Ref   *tree.Ref `json:"ref,omitempty"` // the folder they are in; absent if there are none: only what it printed is kept
	Bytes int64     `json:"bytes"`
	Files int       `json:"files"`
	Logs  *tree.Ref `json:"logs,omitempty"` // the folder of its stdout and stderr, if they are kept

	Copies  int      `json:"copies"` // whole ones there are known to be: one at each keeper
	Keep    int      `json:"keep"`   // that were wanted; more than Copies: the rest is owed
	Keepers []Keeper `json:"keepers"`
	Partial bool     `json:"partial,omitempty"` // the task failed or was stopped: this is what it had written until then
	Why     string   `json:"why,omitempty"`     // owed: why, for people
}

// Keeper is a peer that keeps a copy.
type Keeper struct {
	Peer string `json:"peer"`
	Name string `json:"name"`
}
