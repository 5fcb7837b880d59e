package api

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/coveyproject/covey/internal/atomicfile"
)

// maxSocketPath is how long a path may be before it no longer fits every system's sockaddr_un (104
// bytes on macOS, 108 on Linux).
const maxSocketPath = 100

// socketName is the socket in a data folder.
const socketName = "peer.sock"

// SocketPath is where the peer with this data folder listens: <data>/peer.sock, or, where that path
// is too long for a socket, a short name that is derived from it, in a folder of the user's own in
// the runtime folder.
func SocketPath(data string) string {
	if abs, err := filepath.Abs(data); err == nil {
		data = abs
	}
	p := filepath.Join(data, socketName)
	if len(p) <= maxSocketPath {
		return p
	}
	sum := sha256.Sum256([]byte(data))
	name := filepath.Join(fmt.Sprintf("%s%d", ownFolder, os.Getuid()), hex.EncodeToString(sum[:8])+".sock")
	for _, dir := range []string{os.Getenv("XDG_RUNTIME_DIR"), os.TempDir()} {
		if p := filepath.Join(dir, name); dir != "" && len(p) <= maxSocketPath {
			return p
		}
	}
	return filepath.Join("/tmp", name)
}

// socketNote is the file in a data folder that says where its socket is, if that is elsewhere:
// another environment – that of cron, or of sudo – would have it looked for in another folder.
const socketNote = "peer.sock.path"

// FindSocket is where a peer with this data folder listens that may have been started in another
// environment.
func FindSocket(data string) string {
	p := SocketPath(data)
	if filepath.Base(p) == socketName {
		return p
	}
	if b, err := os.ReadFile(filepath.Join(data, socketNote)); err == nil && filepath.IsAbs(string(b)) {
		return string(b)
	}
	return p
}

// ListenIn is Listen at the data folder's SocketPath, which FindSocket finds.
func ListenIn(data string) (net.Listener, error) {
	p := SocketPath(data)
	if filepath.Base(p) != socketName {
		if err := atomicfile.Write(filepath.Join(data, socketNote), []byte(p)); err != nil {
			return nil, fmt.Errorf("note where the socket is: %w", err)
		}
	}
	return Listen(p)
}

// ownFolder is how the folder for sockets begins that are not in a data folder.
const ownFolder = "covey-"

// CheckFolder tells whether nobody else can put a socket where this one is: in a folder that others
// can write to – /tmp is one – anybody could be first to have the name. A data folder is the peer's
// own, which looks after it.
func CheckFolder(path string) error {
	dir := filepath.Dir(path)
	if !strings.HasPrefix(filepath.Base(dir), ownFolder) {
		return nil
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if why := notOurs(st); why != "" {
		return Errorf(Refused, "the folder %s for sockets %s: another user may have made it; remove it, or set XDG_RUNTIME_DIR to a folder of your own", dir, why)
	}
	return nil
}

// Listen opens the socket for its owner, and tasks that its owner gave users of their own. The
// caller holds the data folder's lock, so that a socket file that is there is a left-over and is
// replaced.
func Listen(path string) (net.Listener, error) {
	if dir := filepath.Dir(path); strings.HasPrefix(filepath.Base(dir), ownFolder) {
		if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
			return nil, fmt.Errorf("make a folder for the socket: %w", err)
		}
	}
	if err := CheckFolder(path); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("remove old socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	mode := os.FileMode(0o600)
	if os.Geteuid() == 0 && !strings.HasPrefix(filepath.Base(filepath.Dir(path)), ownFolder) {
		mode = 0o666 // tasks are other users then, and are shown the socket of a folder only root passes; Gate refuses others
	}
	if err := os.Chmod(path, mode); err != nil {
		l.Close()
		return nil, fmt.Errorf("restrict %s to its owner: %w", path, err)
	}
	return l, nil
}
