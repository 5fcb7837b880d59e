package api

import "covey/node/blob/tree"

// Output is what is kept of the files of a task that has ended.
type Output struct {
	Ref   *tree.Ref `json:"ref,omitempty"` // the folder they are in; absent if there are none: only what it printed is kept
	Bytes int64     `json:"bytes"`
	Files int       `json:"files"`
	Logs  *tree.Ref `json:"logs,omitempty"` // the folder of its stdout and stderr, if they are kept

	Copies  int      `json:"copies"` // whole ones there are known to be: one at each keeper
	Keep    int      `json:"keep"`   // that were wanted; more than Copies: the rest is owed
	Keepers []Keeper `json:"keepers"`
	Partial bool     `json:"partial,omitempty"` // the task did not end well: this is what it had written until then
	Why     string   `json:"why,omitempty"`     // owed: why, for people
}

// Keeper is a peer that keeps a copy.
type Keeper struct {
	Peer string `json:"peer"`
	Name string `json:"name"`
}
