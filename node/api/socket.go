package api

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

var errPermission = fs.ErrPermission

// maxSocketPath is how long a path may be before it no longer fits every system's sockaddr_un (104 bytes on macOS, 108 on Linux).
const maxSocketPath = 100

// SocketPath is where the peer with this data folder listens: <data>/peer.sock, or, where that path is too long for a socket, a
// short name in the user's runtime folder that is derived from it.
func SocketPath(data string) string {
	if abs, err := filepath.Abs(data); err == nil {
		data = abs
	}
	p := filepath.Join(data, "peer.sock")
	if len(p) <= maxSocketPath {
		return p
	}
	sum := sha256.Sum256([]byte(data))
	name := fmt.Sprintf("covey-%d-%s.sock", os.Getuid(), hex.EncodeToString(sum[:8]))
	for _, dir := range []string{os.Getenv("XDG_RUNTIME_DIR"), os.TempDir()} {
		if p := filepath.Join(dir, name); dir != "" && len(p) <= maxSocketPath {
			return p
		}
	}
	return filepath.Join("/tmp", name)
}

// Listen opens the socket for its owner alone. The caller holds the data folder's lock, so that a socket file that is there is a
// left-over and is replaced.
func Listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("remove old socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("restrict %s to its owner: %w", path, err)
	}
	return l, nil
}
