package service

import (
	"net"
	"os"
	"strings"
)

// Notify tells systemd how this process is, if systemd started it and wants to know: READY=1,
// STOPPING=1, STATUS=… (sd_notify(3)). Elsewhere it does nothing.
func Notify(state string) error {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	if name, ok := strings.CutPrefix(socket, "@"); ok {
		socket = "\x00" + name // an abstract one
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte(state))
	return err
}
