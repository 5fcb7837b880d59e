package blob

import (
	"errors"
	"fmt"

	"github.com/coveyproject/covey/node/blob/piece"
)

// Protocol is the stream protocol: questions, and answers in the same order.
const Protocol = "/covey/files/1"

// Limits of the protocol.
const (
	MaxRoots    = 512       // blobs in one Have
	MaxRead     = 256 << 10 // raw bytes of one answer
	maxQuestion = 64 << 10  // bytes of a frame
	maxAnswer   = 128 << 10
	valueSize   = 32       // bytes of one value of a proof
	maxMaps     = 65 << 10 // bytes of bitmaps in one answer, enough for the largest: blobs beyond that are said to be absent
)

// MaxProof bounds the blobs that are fetched: a proof of so many bytes belongs to 512 GiB.
const MaxProof = 16 << 20

// question is a frame to a source. Exactly one field is set.
type question struct {
	Have  [][]byte `cbor:"1,keyasint,omitempty"` // roots
	Proof *span    `cbor:"2,keyasint,omitempty"` // values, by their number
	Get   *span    `cbor:"3,keyasint,omitempty"` // bytes
	Bad   *span    `cbor:"4,keyasint,omitempty"` // one piece, by its number
}

// span is a part of a blob, or of its proof.
type span struct {
	Root []byte `cbor:"1,keyasint"`
	At   int64  `cbor:"2,keyasint,omitempty"`
	N    int64  `cbor:"3,keyasint,omitempty"`
}

// answer is a frame from a source; Raw bytes follow it.
type answer struct {
	Held  []held `cbor:"1,keyasint,omitempty"` // to Have: of each root
	Raw   int64  `cbor:"2,keyasint,omitempty"` // to Proof and Get: all that was asked for
	Error *Error `cbor:"3,keyasint,omitempty"`
}

// held is what a source has of a blob; no Map: nothing.
type held struct {
	Size int64  `cbor:"1,keyasint,omitempty"`
	Map  []byte `cbor:"2,keyasint,omitempty"` // piece.Bitmap.Bytes
}

// Codes of Error.
const (
	CodeAbsent = "absent" // the source does not have that
	CodeBusy   = "busy"   // it gives to as many as it does; ask again later
	CodeBad    = "bad-request"
	CodeFailed = "failed"
)

// Error is why a source does not give something.
type Error struct {
	Code    string `cbor:"1,keyasint"`
	Message string `cbor:"2,keyasint,omitempty"`
}

func (e *Error) Error() string {
	if e.Message == "" {
		return e.Code
	}
	return fmt.Sprintf("%.200s", e.Message)
}

var errQuestion = errors.New("that is no question about files")

// validate tells whether a question can be answered at all.
func (q *question) validate() error {
	set := 0
	for _, is := range []bool{q.Have != nil, q.Proof != nil, q.Get != nil, q.Bad != nil} {
		if is {
			set++
		}
	}
	if set != 1 || len(q.Have) > MaxRoots || q.Have != nil && len(q.Have) == 0 {
		return errQuestion
	}
	for _, r := range q.Have {
		if len(r) != len(piece.Root{}) {
			return errQuestion
		}
	}
	switch {
	case q.Proof != nil:
		return q.Proof.validate(piece.MaxSize/piece.Size, MaxRead/valueSize)
	case q.Get != nil:
		return q.Get.validate(piece.MaxSize, MaxRead)
	case q.Bad != nil:
		return q.Bad.validate(piece.MaxSize/piece.Size, 1)
	}
	return nil
}

func (s *span) validate(end, most int64) error {
	if len(s.Root) != len(piece.Root{}) || s.At < 0 || s.N < 1 || s.N > most || s.At > end-s.N {
		return errQuestion
	}
	return nil
}

func (s *span) root() piece.Root { return piece.Root(s.Root) }

// spanOf asks for a part of a blob.
func spanOf(root piece.Root, at, n int64) *span { return &span{root[:], at, n} }

// pieces reads what a source says it has of a blob. A size that cannot be is nothing.
func (h *held) pieces() (size int64, has *piece.Bitmap) {
	if h.Map == nil || h.Size < 0 || int64(piece.Entries(h.Size))*valueSize > MaxProof || h.Size > piece.MaxSize {
		return 0, nil
	}
	has, err := piece.ParseBitmap(piece.Count(h.Size), h.Map)
	if err != nil || has.Have() == 0 {
		return 0, nil
	}
	return h.Size, has
}
