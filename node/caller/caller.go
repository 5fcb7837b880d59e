package caller

// Process is one that has connected here.
type Process struct {
	PID, UID int
	fd       int // of the process, -1 if the kernel gives none
}
