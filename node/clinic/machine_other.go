//go:build !linux

package clinic

import (
	"runtime"

	"github.com/coveyproject/covey/node/doctor"
)

// limits are looked at on Linux.
func limits() doctor.Known[doctor.Limits] {
	return doctor.NotTried[doctor.Limits]("not looked at on " + runtime.GOOS)
}
