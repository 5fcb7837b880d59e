package node

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
)

// errSum is of a file that is not as it was written.
var errSum = errors.New("its checksum does not fit")

// withSum is a line of text with a checksum below it: a digit that a disk changed makes another
// number of it, and nobody would notice.
func withSum(line []byte) []byte {
	return fmt.Appendf(bytes.Clone(line), "\n%08x\n", crc32.Checksum(line, crc32.MakeTable(crc32.Castagnoli)))
}

// summed is the line withSum was given.
func summed(file []byte) ([]byte, error) {
	line, _, _ := bytes.Cut(file, []byte("\n"))
	if !bytes.Equal(file, withSum(line)) {
		return nil, errSum
	}
	return line, nil
}
