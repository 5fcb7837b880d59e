// Package web is the page: files that are in the program, served as they are. There is no build
// step; a browser reads the modules of static as they are written. It loads nothing from elsewhere
// and holds nothing that is secret: what it shows it asks the API for, with the token of its
// reader.
package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed static
var static embed.FS

// Has tells whether a path is one of the page's files. Any other path is none of the page's.
func Has(p string) bool {
	_, err := read(p)
	return err == nil
}

func read(p string) ([]byte, error) {
	if p == "/" {
		p = "/index.html"
	}
	if path.Clean(p) != p {
		return nil, fs.ErrNotExist
	}
	return static.ReadFile("static" + p)
}

// Handler serves the files that Has knows.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := read(r.URL.Path)
		if err != nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.NotFound(w, r)
			return
		}
		sum := sha256.Sum256(b)
		w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
		w.Header().Set("Cache-Control", "no-cache") // asked for anew each time, and sent only if it is another one
		w.Header().Set("Content-Type", typeOf(r.URL.Path))
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
	})
}

// typeOf is a file's media type, whatever the machine's own table says.
func typeOf(p string) string {
	switch ext := path.Ext(p); ext {
	case "", ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	default:
		if t := mime.TypeByExtension(ext); t != "" && !strings.HasPrefix(t, "text/html") {
			return t
		}
		return "text/plain; charset=utf-8"
	}
}
