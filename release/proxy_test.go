package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// outside is a program of somebody else that uses the client.
const outside = `package main

import (
	"context"
	"fmt"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
)

func main() {
	peer := client.Of("/there/is/no/peer")
	defer peer.Close()
	_, err := peer.Status(context.Background())
	fmt.Println(api.AsError(err).Code)
}
`

// installs has the go command use the release's proxy, with a module cache of its own: in this
// user's a version stays what it was the first time. What is in that one already is taken from
// there. The flags of the release's own build let its compiled packages serve again.
func installs(t *testing.T, dist string) {
	goEnv, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	had := strings.Fields(string(goEnv))
	bin, empty := t.TempDir(), t.TempDir()
	command := func(dir string, args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOPROXY=file://"+filepath.Join(dist, "proxy")+",file://"+had[0]+"/cache/download,"+had[1],
			"GOMODCACHE="+filepath.Join(bin, "modules"), "GOBIN="+bin, "GOFLAGS=-trimpath -modcacherw", "GOSUMDB=off", "GOWORK=off", "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %q: %v: %s", args, err, out)
		}
		return string(out)
	}
	command(empty, "install", "-ldflags", "-s -w", "github.com/coveyproject/covey/cmd/peer@v0.2.0")
	out, err := exec.Command(filepath.Join(bin, "peer"), "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "peer 0.2.0 (go") {
		t.Errorf("%v: %s", err, out)
	}

	for name, text := range map[string]string{
		"go.mod":  "module example.com/outside\n\ngo 1.26.0\n\nrequire github.com/coveyproject/covey v0.2.0\n",
		"main.go": outside,
	} {
		if err := os.WriteFile(filepath.Join(empty, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out := command(empty, "run", "-mod=mod", "."); !strings.HasSuffix(out, "no_coordinator\n") {
		t.Errorf("%s", out)
	}
}
