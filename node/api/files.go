package api

import (
	"context"
	"time"

	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/tree"
)

// FileBackend keeps files under the names of what is in them, and brings them from other peers. It
// opens no path of a user: bytes come and go as streams.
type FileBackend interface {
	// HaveBlobs says which of some blobs are here whole.
	HaveBlobs(ctx context.Context, b Blobs) (Blobs, error)
	// PutFiles keeps one file or folder, and the blobs that in reads. What is neither in it nor
	// here is counted as missing; then nothing is kept.
	PutFiles(ctx context.Context, in *PutReader) (Put, error)
	// Unput lets go of what was put here.
	Unput(ctx context.Context, ref string) (Put, error)
	// GetFiles writes blobs to out, those that are not here as they come from other peers.
	GetFiles(ctx context.Context, q GetFiles, out *FileWriter) error
	// ListFiles calls each with what is in some folders, and the number of the folder, when the
	// lists of all of them are here.
	ListFiles(ctx context.Context, trees []piece.Root, each func(int, tree.Entry) error) error
	// StoreUsage says what the store holds.
	StoreUsage(ctx context.Context) (StoreUsage, error)
}

// MaxBlobs is how many blobs may be asked for at once.
const MaxBlobs = 4096

// Blobs is the body of POST /v1/files/have, and answers it: those that are here.
type Blobs struct {
	Blobs []piece.Root `json:"blobs"`
}

// PutEnd is the last line of what is put: what it was.
type PutEnd struct {
	Ref  tree.Ref `json:"ref"`
	Name string   `json:"name"`          // of the file or folder, for people
	For  float64  `json:"for,omitempty"` // seconds for which it is kept; 0: until it is let go
}

// Put is something that was put here. It answers PUT /v1/files and DELETE /v1/files.
type Put struct {
	Ref     tree.Ref   `json:"ref"`
	Name    string     `json:"name"`
	Files   int        `json:"files"`
	Bytes   int64      `json:"bytes"`
	Until   *time.Time `json:"until,omitempty"`   // it is kept until then; none: until it is let go
	New     int64      `json:"new,omitempty"`     // bytes that were not here before
	Missing int        `json:"missing,omitempty"` // blobs that were not sent and are not here
}

// GetFiles is the body of POST /v1/files/get: one blob, the files of a folder, or several blobs.
type GetFiles struct {
	Root  piece.Root  `json:"root"`
	Files bool        `json:"files,omitempty"` // Root is a tree, of which the files that are not empty are asked for, in its order
	Stay  bool        `json:"stay,omitempty"`  // only bring them to the peer: none are in the answer
	Skip  []byte      `json:"skip,omitempty"`  // those of them that are not; the lowest bit of the first byte is the first file
	Blobs []SizedBlob `json:"blobs,omitempty"` // instead of Root: these, in this order; MaxBlobs at most
}

// SizedBlob is a blob and how many bytes it has; less than zero: that is not known.
type SizedBlob struct {
	Blob piece.Root `json:"blob"`
	Size int64      `json:"size"`
}

// Skips tells whether the i-th file of the folder is not asked for.
func (q *GetFiles) Skips(i int) bool { return i/8 < len(q.Skip) && q.Skip[i/8]&(1<<(i%8)) != 0 }

// Source is a peer that files come from.
type Source struct {
	Peer  string `json:"peer"`
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Fetching is how far files have come from other peers.
type Fetching struct {
	Bytes int64    `json:"bytes"`          // of those to come
	All   int64    `json:"all,omitempty"`  // 0: not known yet
	From  []Source `json:"from,omitempty"` // the one that gave most comes first
}

// StoreUsage answers GET /v1/store. What takes room is counted in bytes of the disk.
type StoreUsage struct {
	Dir      string     `json:"dir"`
	Quota    int64      `json:"quota"` // for what is kept for others
	Bytes    int64      `json:"bytes"`
	MayGo    int64      `json:"may_go"`    // of it, what makes place for other files when there is need
	Pinned   int64      `json:"pinned"`    // of it, what was put here
	DiskFree int64      `json:"disk_free"` // what could still be written
	Blobs    int        `json:"blobs"`
	Partial  int        `json:"partial"` // blobs that have not come whole
	Foreign  int        `json:"foreign,omitempty"`
	Puts     []Put      `json:"puts"`
	Jobs     []JobFiles `json:"jobs"` // what tasks left, older jobs first
	AsOf     time.Time  `json:"as_of"`
}

// JobFiles is how it stands with what the tasks of a job left here.
type JobFiles struct {
	Job    string `json:"job"`
	Name   string `json:"name,omitempty"`
	Home   bool   `json:"home,omitempty"`   // the job was submitted here
	Tasks  int    `json:"tasks"`            // that left something
	Bytes  int64  `json:"bytes"`            // of it
	Coming int    `json:"coming,omitempty"` // tasks of which not all is here yet
	Copies int    `json:"copies"`           // of the task that has the fewest
	Keep   int    `json:"keep"`             // that there are to be
	Only   int    `json:"only,omitempty"`   // tasks of which no other peer that is here has a copy
	Why    string `json:"why,omitempty"`    // fewer copies than there are to be
}
