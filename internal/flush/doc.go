// Package flush brings what was written to the disk, as cheaply as the system can.
package flush
