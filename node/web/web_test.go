package web_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coveyproject/covey/node/web"
)

// maxPage is how large all of the page may be, in bytes.
const maxPage = 100_000

// foreign is an address that is not the page's own.
var foreign = regexp.MustCompile(`(https?:)?//[a-z0-9-]+\.[a-z]+`)

func TestThePageIsSmallAndLoadsNothingFromElsewhere(t *testing.T) {
	all := 0
	err := filepath.WalkDir("static", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		all += len(b)
		text := strings.ReplaceAll(string(b), "http://www.w3.org/", "") // a name, not an address
		if at := foreign.FindString(text); at != "" {
			t.Errorf("%s names %s", path, at)
		}
		if strings.Contains(text, "innerHTML =") || strings.Contains(text, "eval(") {
			t.Errorf("%s makes code or markup of text", path)
		}
		if !web.Has("/" + filepath.ToSlash(strings.TrimPrefix(path, "static/"))) {
			t.Errorf("%s is not served", path)
		}
		return nil
	})
	if err != nil || all > maxPage {
		t.Errorf("%d bytes, at most %d; %v", all, maxPage, err)
	}
}

func TestAFileIsServedAsWhatItIsAndOnlyIfItIsAnother(t *testing.T) {
	for path, media := range map[string]string{"/": "text/html", "/index.html": "text/html", "/app.js": "text/javascript", "/app.css": "text/css", "/icon.svg": "image/svg+xml"} {
		w := httptest.NewRecorder()
		web.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), media) || w.Body.Len() == 0 {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
		again := httptest.NewRequest(http.MethodGet, path, nil)
		again.Header.Set("If-None-Match", w.Header().Get("ETag"))
		w = httptest.NewRecorder()
		if web.Handler().ServeHTTP(w, again); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
			t.Errorf("%s once more: %d", path, w.Code)
		}
	}
	for _, path := range []string{"/none.js", "/../web.go", "/static", "//app.js", "/./app.js", "/app.js/", "/v1/status", ""} {
		if web.Has(path) {
			t.Errorf("%q is one of the page's files", path)
		}
	}
}

func TestWhatOthersWroteDoesNotReorderThePage(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node here")
	}
	program, err := os.ReadFile(filepath.Join("static", "api.js"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, "--input-type=module")
	cmd.Stdin = strings.NewReader(string(program) + "\n" + `console.log(JSON.stringify(parse(JSON.stringify({a: ["x\u202ey"], b: {c: "\u2066\n\u200f"}, n: 1}))));`)
	out, err := cmd.CombinedOutput()
	if want := `{"a":["x\\u202ey"],"b":{"c":"\\u2066\n\\u200f"},"n":1}`; err != nil || strings.TrimSpace(string(out)) != want {
		t.Errorf("%s, want %s; %v", out, want, err)
	}
	if n := strings.Count(string(program), "JSON.parse(") + strings.Count(string(program), ".json()"); n != 3 { // parse itself, a file's bytes, a token
		t.Errorf("answers are read past parse: %d places", n)
	}
}
