package main

import (
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"github.com/coveyproject/covey/node"
	"github.com/coveyproject/covey/node/api"
)

// maxSecretFile bounds a file with a ticket, in bytes.
const maxSecretFile = 64 << 10

// secrets are the flags of `peer up` that nobody but its owner may see: `ps` shows everybody what
// was typed.
func secrets(cfg *node.Config) map[string]*string {
	return map[string]*string{"join": &cfg.Join, "invite": &cfg.Invite}
}

// secretFlags is the order in which they are handed over on stdin.
func secretFlags() []string { return []string{"join", "invite"} }

// takeSecrets reads those that are elsewhere – on stdin (-), in a file (@FILE) – and makes those
// unreadable that were typed or in the environment.
func takeSecrets(cfg *node.Config, stdin io.Reader) error {
	all := secrets(cfg)
	for _, name := range secretFlags() {
		value := all[name]
		given := *value
		*value = strings.Clone(given)
		wipe(given)
		var err error
		switch {
		case *value == "-":
			*value, err = readWord(stdin)
		case strings.HasPrefix(*value, "@"):
			var b []byte
			b, err = namedFile((*value)[1:], maxSecretFile)
			*value = strings.TrimSpace(string(b))
		default:
			continue
		}
		if err != nil {
			return api.Errorf(api.Usage, "--%s: %v", name, err)
		}
		if *value == "" {
			return api.Errorf(api.Usage, "--%s: there is nothing in it; it is what `peer ticket` prints", name)
		}
	}
	return nil
}

// readWord reads one line, byte by byte: what follows is for the next reader.
func readWord(r io.Reader) (string, error) {
	var line []byte
	for b := make([]byte, 1); len(line) < maxSecretFile; {
		n, err := r.Read(b)
		if n == 1 && b[0] == '\n' || errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
		line = append(line, b[:n]...)
	}
	return strings.TrimSpace(string(line)), nil
}

// wipe overwrites a text in the memory the program was given its command line and environment in,
// which others can read. Anything else is left alone.
func wipe(s string) {
	if s == "" || runtime.GOOS == "windows" || !within(s, os.Args) && !within(s, os.Environ()) {
		return
	}
	b := unsafe.Slice(unsafe.StringData(s), len(s))
	for i := range b {
		b[i] = '*'
	}
}

// within tells whether a text is part of one of others, in memory.
func within(s string, all []string) bool {
	at := uintptr(unsafe.Pointer(unsafe.StringData(s)))
	for _, a := range all {
		from := uintptr(unsafe.Pointer(unsafe.StringData(a)))
		if at >= from && at+uintptr(len(s)) <= from+uintptr(len(a)) {
			return true
		}
	}
	return false
}

// handOver is the command line of the same command in another process, without --detach and with
// its secrets on stdin.
func handOver(args []string, cfg *node.Config) (rest []string, stdin string) {
	all := secrets(cfg)
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(strings.TrimPrefix(args[i], "--"), "=")
		switch {
		case args[i] == "--detach", args[i] == "--detach=true":
		case strings.HasPrefix(args[i], "--") && all[name] != nil:
			if !joined {
				i++
			}
		default:
			rest = append(rest, args[i])
		}
	}
	for _, name := range secretFlags() {
		if *all[name] != "" {
			rest = append(rest, "--"+name, "-")
			stdin += *all[name] + "\n"
		}
	}
	return rest, stdin
}
