package load

import (
	"bytes"
	"io"
	"os"
	"strconv"
)

// read asks the kernel.
func read() (s sample) {
	s.busy, s.total = processors(head("/proc/stat"))
	s.memory, s.memoryOf = memory(head("/proc/meminfo"))
	s.average = average(head("/proc/loadavg"))
	return s
}

// head is the beginning of a file: what is wanted stands there.
func head(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	b := make([]byte, 512)
	n, _ := io.ReadFull(f, b)
	return b[:n]
}

// processors reads the first line of /proc/stat: user nice system idle iowait irq softirq steal,
// and what is counted twice.
func processors(stat []byte) (busy, total uint64) {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	f := bytes.Fields(line)
	if len(f) < 6 || string(f[0]) != "cpu" {
		return 0, 0
	}
	for i, x := range f[1:min(len(f), 9)] {
		n, err := strconv.ParseUint(string(x), 10, 64)
		if err != nil {
			return 0, 0
		}
		if total += n; i != 3 && i != 4 {
			busy += n
		}
	}
	return busy, total
}

// memory reads /proc/meminfo: what programs could still have is not in use.
func memory(info []byte) (used, of int64) {
	free := int64(-1)
	for line := range bytes.Lines(info) {
		f := bytes.Fields(line)
		if len(f) != 3 {
			continue
		}
		n, err := strconv.ParseInt(string(f[1]), 10, 64)
		switch {
		case err != nil:
		case string(f[0]) == "MemTotal:":
			of = n << 10
		case string(f[0]) == "MemAvailable:":
			free = n << 10
		}
	}
	if free < 0 {
		return 0, 0
	}
	return of - free, of
}

// average reads the first number of /proc/loadavg.
func average(loadavg []byte) *int {
	first, _, _ := bytes.Cut(loadavg, []byte(" "))
	n, err := strconv.ParseFloat(string(first), 64)
	if err != nil || !(n >= 0 && n < 1e6) {
		return nil
	}
	return new(int(n*100 + 0.5))
}
