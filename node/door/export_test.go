package door

import (
	"net"
	"net/http"
)

// Handler serves an address without a listener.
func (d *Door) Handler(at net.Addr) http.Handler { return d.handler(at, nil) }
