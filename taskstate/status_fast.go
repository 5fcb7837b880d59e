package taskstate

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// The heads of CBOR items, in their upper three bits.
const (
	cborUint = iota
	cborNegative
	_
	cborText
	cborArray
	cborMap
)

const cborTrue = 0xf5

// fastStatus reads a status that is written as wire.Marshal does. Statuses are most of what a peer
// decodes, and this takes a third of the time. Whatever looks otherwise is left to wire.Unmarshal
// to judge: ok is false.
func fastStatus(b []byte) (s Status, ok bool) {
	r := cborReader{b: b}
	fields, last := r.head(cborMap), uint64(0)
	for ; fields > 0 && !r.bad; fields-- {
		key := r.head(cborUint)
		if key <= last {
			return s, false
		}
		last = key
		switch key {
		case 1:
			r.bad = r.bad || r.head(cborArray) != 3
			s.Task = TaskID{Job: JobID(r.text()), Slot: int(r.int()), Attempt: int(r.int())}
		case 2:
			s.Seq = r.head(cborUint)
		case 3:
			state := r.head(cborUint)
			r.bad = r.bad || state > math.MaxUint16
			s.State = State(state)
		case 4:
			s.Index = r.head(cborUint)
		case 5:
			s.At = r.int()
		case 6:
			s.Exit = int(r.int())
		case 7:
			s.Signal = int(r.int())
		case 8:
			s.Reason = Reason(r.text())
		case 9:
			s.Message = r.text()
		case 10:
			s.Took = r.int()
		case 11:
			s.Waited = r.int()
		case 12:
			s.Truncated = len(r.b) > 0 && r.b[0] == cborTrue
			r.bad = r.bad || !s.Truncated
			r.b = r.b[min(1, len(r.b)):]
		case 14:
			held := r.head(cborUint)
			r.bad = r.bad || held > math.MaxUint16
			s.Held = Confined(held)
		default:
			return s, false
		}
	}
	return s, !r.bad && len(r.b) == 0
}

// cborReader takes an encoding apart; the first thing that does not fit makes it bad, and all that
// follows zero.
type cborReader struct {
	b   []byte
	bad bool
}

// head reads the head of an item of that type: its number, or how many bytes or elements follow.
func (r *cborReader) head(major byte) uint64 {
	if r.bad || len(r.b) == 0 || r.b[0]>>5 != major {
		r.bad = true
		return 0
	}
	short := r.b[0] & 31
	r.b = r.b[1:]
	if short < 24 {
		return uint64(short)
	}
	size := 1 << (short - 24)
	if short > 27 || len(r.b) < size {
		r.bad = true
		return 0
	}
	var wide [8]byte
	copy(wide[8-size:], r.b)
	r.b = r.b[size:]
	return binary.BigEndian.Uint64(wide[:])
}

func (r *cborReader) int() int64 {
	major := byte(cborUint)
	if len(r.b) > 0 && r.b[0]>>5 == cborNegative {
		major = cborNegative
	}
	n := r.head(major)
	if n > math.MaxInt64 {
		r.bad = true
		return 0
	}
	if major == cborNegative {
		return -1 - int64(n)
	}
	return int64(n)
}

func (r *cborReader) text() string {
	n := r.head(cborText)
	if n > uint64(len(r.b)) {
		r.bad = true
		return ""
	}
	t := r.b[:n]
	r.b = r.b[n:]
	r.bad = r.bad || !utf8.Valid(t)
	return string(t)
}
