package long

import (
	"flag"
	"os"
	"strconv"
)

// AtOnce lets n tests of a package run at once that wait most of their time, where -parallel does
// not say otherwise. TestMain calls it before it runs them.
func AtOnce(n int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(n))
	}
}

// InMemory runs tests whose folders are in memory, where there is some: a sync costs nothing there.
// Benchmarks keep the disk, which they are about. It returns what they end with.
func InMemory(m interface{ Run() int }) int {
	flag.Parse()
	bench := flag.Lookup("test.bench").Value.String()
	if bench != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("/dev/shm", "covey-test-")
	if err != nil {
		return m.Run()
	}
	defer os.RemoveAll(dir)
	_ = os.Chmod(dir, 0o755) // as the usual one: tasks of other users go through it
	_ = os.Setenv("TMPDIR", dir)
	return m.Run()
}
