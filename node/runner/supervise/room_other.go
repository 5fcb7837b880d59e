//go:build !linux && !darwin

package supervise

import "errors"

// RoomOf is not known here.
func RoomOf(string) (Room, error) { return Room{}, errors.ErrUnsupported }
