//go:build !nextdialect

package api

import "net/http"

// nextRoutes are what peers of the next dialect answer besides: nothing yet.
func nextRoutes(*http.ServeMux, Backend) {}
