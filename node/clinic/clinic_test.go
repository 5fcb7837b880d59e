package clinic

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/coveyproject/covey/node/api"
)

func TestWhatAnotherPeerSaysOfItselfIsKeptToItsBounds(t *testing.T) {
	a := answer{Findings: make([]finding, 3*maxFindings)}
	a.Findings[0] = finding{Check: "tcp", Result: "of-later", Text: strings.Repeat("ä", maxText), Do: "\xff"}
	got := a.findings()
	if len(got) != maxFindings || got[0].Result != api.FindingWarn || len(got[0].Text) > maxText+2 || !utf8.ValidString(got[0].Text) || got[0].Do != "?" {
		t.Errorf("%d findings, the first %+v", len(got), got[0])
	}
}

func TestAFolderWithoutAPeerIsLookedAtAndStaysAsItIs(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{keyFile, tokensFile, "policy.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("]["), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	of := map[string]api.Finding{}
	for _, f := range Stopped(dir, "v").Findings {
		of[f.Check] = f
	}
	for _, check := range []string{"peer", "key", "tokens", "policy"} {
		if f := of[check]; f.Result != api.FindingFail || f.Do == "" {
			t.Errorf("%s: %+v", check, f)
		}
	}
	for _, check := range []string{"tcp", "udp", "clock", "voters", "limits"} {
		if of[check].Result != api.FindingUntried {
			t.Errorf("%+v", of[check])
		}
	}
	if of["sync"].Result == api.FindingUntried {
		t.Errorf("%+v", of["sync"])
	}
	left, err := os.ReadDir(dir)
	for begun := time.Now(); len(left) > 3 && time.Since(begun) < time.Minute; left, err = os.ReadDir(dir) {
		time.Sleep(time.Millisecond) // a write that hangs is left to itself
	}
	if err != nil || len(left) != 3 {
		t.Errorf("%v, %v", left, err)
	}
	if got := Stopped(filepath.Join(dir, "none"), "v"); !got.Fails() {
		t.Errorf("no folder: %+v", got)
	}
}
