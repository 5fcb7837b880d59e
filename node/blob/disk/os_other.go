//go:build !linux

package disk

import "os"

// publish gives a part its name; where nothing is to be replaced, nothing that is there is.
func publish(dir *os.Root, name string, replace bool) error {
	if replace {
		return dir.Rename(partOf(name), name)
	}
	return publishUnseen(dir, partOf(name), name)
}

// syncAll leaves it to the system when files reach the disk.
func syncAll(*os.Root) error { return nil }
