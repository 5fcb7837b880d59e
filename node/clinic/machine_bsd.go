//go:build unix && !linux

package clinic

// fileSystem is told on Linux.
func fileSystem(string) (name string, network, memory bool) { return "", false, false }
