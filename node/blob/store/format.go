package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/p2p/wire"
)

// What files begin with: their kind and version.
const (
	proofMagic = "covey blob proof 1"
	mapMagic   = "covey blob map 1"
	pinMagic   = "covey blob pin 1"
)

// The folders, and the ends of names.
const (
	partials = "partial"
	pinned   = "pins"
	making   = "tmp"

	proofEnd = ".proof"
	mapEnd   = ".map"
)

// wholeName is where a blob is.
func wholeName(r piece.Root) string {
	h := hex.EncodeToString(r[:])
	return path.Join(h[:2], h)
}

// partName is where one is of which some pieces are missing.
func partName(r piece.Root) string { return path.Join(partials, hex.EncodeToString(r[:])) }

// rootIn reads a blob's name from a file's.
func rootIn(name string) (r piece.Root, ok bool) {
	if len(name) != 2*len(r) || strings.ToLower(name) != name {
		return r, false
	}
	_, err := hex.Decode(r[:], []byte(name))
	return r, err == nil
}

// block is what the smallest file takes on a disk.
const block = 4 << 10

// costOf is what a blob takes on a disk, with its proof.
func costOf(size int64) int64 {
	cost := blocks(size)
	if n := piece.Entries(size); n > 0 {
		cost += blocks(int64(len(proofMagic) + 8 + 32*n))
	}
	return cost
}

// costAt is what a blob takes of which the disk has that many bytes: it may have holes.
func costAt(size, taken int64) int64 { return costOf(size) - blocks(size) + blocks(min(size, taken)) }

func blocks(n int64) int64 { return max(1, (n+block-1)/block) * block }

// encodeProof is a proof file: it needs no checksum, since a proof that is not the blob's does not
// join to its name.
func encodeProof(b piece.Blob) []byte {
	out := make([]byte, 0, len(proofMagic)+8+32*len(b.Proof()))
	out = append(out, proofMagic...)
	out = binary.LittleEndian.AppendUint64(out, uint64(b.Size()))
	for _, v := range b.Proof() {
		out = append(out, v[:]...)
	}
	return out
}

func decodeProof(root piece.Root, data []byte) (piece.Blob, error) {
	rest, ok := strings.CutPrefix(string(data), proofMagic)
	if !ok || len(rest) < 8 || (len(rest)-8)%32 != 0 {
		return piece.Blob{}, fmt.Errorf("%w: not a proof file", piece.ErrProof)
	}
	size := int64(binary.LittleEndian.Uint64([]byte(rest)))
	var proof piece.Proof
	for rest = rest[8:]; len(rest) > 0; rest = rest[32:] {
		proof = append(proof, [32]byte([]byte(rest[:32])))
	}
	return piece.Open(root, size, proof)
}

// A map file has a bit for each piece, so that a piece changes one byte. Nothing in it is believed
// before the piece was checked.
func encodeMap(m *piece.Bitmap) []byte {
	out := append(make([]byte, 0, len(mapMagic)+(m.Len()+7)/8), mapMagic...)
	for i := 0; i < m.Len(); i += 8 {
		out = append(out, mapByte(m, i))
	}
	return out
}

// mapByte is the byte of a map that has the i-th piece.
func mapByte(m *piece.Bitmap, i int) (b byte) {
	i -= i % 8
	for k := range 8 {
		if m.Has(i + k) {
			b |= 1 << k
		}
	}
	return b
}

// mapOffset is where that byte is.
func mapOffset(i int) int64 { return int64(len(mapMagic) + i/8) }

// decodeMap reads a map of n pieces. What is not there, or too much, claims nothing.
func decodeMap(n int, data []byte) *piece.Bitmap {
	m := piece.NewBitmap(n)
	rest, ok := strings.CutPrefix(string(data), mapMagic)
	if !ok {
		return m
	}
	for i := range min(n, 8*len(rest)) {
		if rest[i/8]&(1<<(i%8)) != 0 {
			m.Set(i)
		}
	}
	return m
}

// Pin is blobs that are to stay together, and why.
type Pin struct {
	Name  string    // of its file: letters, digits, '.', '_', '-'
	Until time.Time // zero: for ever
	Why   string
	Roots []piece.Root
}

// pinBody is what is in its file.
type pinBody struct {
	Until int64  `cbor:"1,keyasint"` // Unix seconds, 0: for ever
	Why   string `cbor:"2,keyasint"`
	Roots []byte `cbor:"3,keyasint"` // one after the other
}

var errPin = errors.New("not a pin")

func encodePin(p Pin) ([]byte, error) {
	body := pinBody{Why: p.Why, Roots: make([]byte, 0, 32*len(p.Roots))}
	if !p.Until.IsZero() {
		body.Until = max(1, p.Until.Unix())
	}
	for _, r := range p.Roots {
		body.Roots = append(body.Roots, r[:]...)
	}
	b, err := wire.Marshal(body)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	return append(append([]byte(pinMagic), sum[:]...), b...), nil
}

func decodePin(name string, data []byte) (Pin, error) {
	rest, ok := strings.CutPrefix(string(data), pinMagic)
	if !ok || len(rest) < sha256.Size {
		return Pin{}, fmt.Errorf("%w: %s", errPin, name)
	}
	b := []byte(rest[sha256.Size:])
	if sha256.Sum256(b) != [sha256.Size]byte([]byte(rest[:sha256.Size])) {
		return Pin{}, fmt.Errorf("%w: %s has a wrong checksum", errPin, name)
	}
	var body pinBody
	if err := wire.Unmarshal(b, &body); err != nil {
		return Pin{}, fmt.Errorf("%w: %s: %w", errPin, name, err)
	}
	if len(body.Roots)%32 != 0 || body.Until < 0 {
		return Pin{}, fmt.Errorf("%w: %s", errPin, name)
	}
	p := Pin{Name: name, Why: body.Why}
	if body.Until > 0 {
		p.Until = time.Unix(body.Until, 0)
	}
	for r := body.Roots; len(r) > 0; r = r[32:] {
		p.Roots = append(p.Roots, piece.Root(r[:32]))
	}
	return p, nil
}

// pinName tells whether a pin may have this name.
func pinName(name string) bool {
	if name == "" || len(name) > 120 || name[0] == '.' {
		return false
	}
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
