package quorum

// longLock is a lock that is held for as long as something takes: a seat waits for its last calls before it is closed. A mutex would do
// as well, but in a bubble of virtual time whoever waits for a mutex stops the time, and then nothing ends that takes some.
type longLock chan struct{}

// Lock waits until nobody else holds it.
func (l longLock) Lock() { l <- struct{}{} }

// Unlock lets the next one have it.
func (l longLock) Unlock() { <-l }
