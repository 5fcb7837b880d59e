package door

import (
	"net"
	"net/http"
)

// Limited is a listener with the door's bounds.
func Limited(l net.Listener) net.Listener { return newFew(l) }

// Handler serves an address without a listener.
func (d *Door) Handler(at net.Addr) http.Handler { return d.handler(at, nil) }
