//go:build !unix

package supervise

// keepDescriptors has nothing to do here: handles are inherited on demand only.
func keepDescriptors() {}
