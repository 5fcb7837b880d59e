package door

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certs is the certificate of a door, read again when its files have changed: such certificates
// live for some weeks, and peers for months.
type certs struct {
	cert, key string
	log       *slog.Logger

	mu   sync.Mutex
	pair *tls.Certificate
	read [2]stamp // of the files, when they were read last
}

// stamp tells one content of a file from the next.
type stamp struct {
	at   time.Time
	size int64
}

func openCerts(cert, key string, log *slog.Logger) (*certs, error) {
	c := &certs{cert: cert, key: key, log: log, read: stamps(cert, key)}
	pair, err := tls.LoadX509KeyPair(cert, key)
	c.pair = &pair
	return c, err
}

func stamps(files ...string) (all [2]stamp) {
	for i, f := range files {
		if info, err := os.Stat(f); err == nil {
			all[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return all
}

// now is the certificate to show. What cannot be read, as one of two files that is written before
// the other, leaves the one before.
func (c *certs) now() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := stamps(c.cert, c.key); s != c.read {
		c.read = s
		if pair, err := tls.LoadX509KeyPair(c.cert, c.key); err != nil {
			c.log.Warn("--api-cert and --api-key have changed and cannot be used: the certificate stays the one before until they change again", "err", err)
		} else {
			c.pair = &pair
		}
	}
	return c.pair
}

func (c *certs) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.now(), nil }}
}
