package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
)

// errSum is of a file that is not as it was written.
var errSum = errors.New("its checksum does not fit")

// WithSum is a line of text with a checksum below it: a digit that a disk changed makes another
// number of it, and nobody would notice.
func WithSum(line []byte) []byte {
	return fmt.Appendf(bytes.Clone(line), "\n%08x\n", crc32.Checksum(line, crc32.MakeTable(crc32.Castagnoli)))
}

// Summed is the line that WithSum was given.
func Summed(file []byte) ([]byte, error) {
	line, _, _ := bytes.Cut(file, []byte("\n"))
	if !bytes.Equal(file, WithSum(line)) {
		return nil, errSum
	}
	return line, nil
}
