//go:build !nextdialect

package api

// nextRoutes are what peers of the next dialect answer besides: nothing yet.
func nextRoutes() []Route { return nil }
