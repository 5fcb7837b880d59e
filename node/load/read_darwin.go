package load

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// read asks the kernel for what it tells without its own libraries: the load average.
func read() (s sample) {
	b, err := unix.SysctlRaw("vm.loadavg") // three fixed-point numbers of 4 bytes, and at 16 what 1 is in them
	if err != nil || len(b) < 24 {
		return s
	}
	if one := binary.LittleEndian.Uint64(b[16:]); one > 0 {
		s.average = new(int(100 * uint64(binary.LittleEndian.Uint32(b)) / one))
	}
	return s
}
