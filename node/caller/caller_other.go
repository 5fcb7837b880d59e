//go:build !linux

package caller

import (
	"errors"
	"net"
)

// Of cannot be told here.
func Of(net.Conn) (Process, error) { return Process{}, errors.ErrUnsupported }

// Gone tells whether the process has ended.
func (p Process) Gone() bool { return p.fd < 0 }

// Close lets go of the process.
func (p Process) Close() {}
