package main

import (
	"strings"
	"testing"

	"github.com/coveyproject/covey/cmd/peer/manual"
	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/node/api"
)

// Written anew by: go test ./cmd/peer -run Reference -update
func TestTheReferenceSaysWhatTheProgramSays(t *testing.T) {
	root := (&cli{}).root()
	root.InitDefaultHelpCmd()
	for path, text := range map[string]string{"commands": manual.Markdown(root), "exit-codes": exitCodes()} {
		if err := golden.Check("../../docs/"+path+".md", text); err != nil {
			t.Error(err)
		}
	}
}

func TestEveryCodeOfAnErrorIsInThePageOfExitCodes(t *testing.T) {
	for i, c := range api.Codes() {
		if exitMeanings[i+1].code != own(c) {
			t.Errorf("%s is %s, and the page has %s there", c, own(c), exitMeanings[i+1].code)
		}
	}
}

func TestPackagesCarryAManPageOfEachCommand(t *testing.T) {
	files, err := packaged((&cli{}).root())
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range everyCommand() {
		if cmd.Hidden || cmd.Name() == "help" || cmd.Parent() != nil && cmd.Parent().Name() == "completion" {
			continue
		}
		page := string(files["man/"+manual.ManName(cmd)+".1"])
		for _, has := range []string{".SH SYNOPSIS", ".SH DESCRIPTION"} {
			if !strings.Contains(page, has) {
				t.Errorf("%s: no %s in its page", cmd.CommandPath(), has)
			}
		}
	}
	for _, name := range []string{"covey.service", "covey.peer.plist", "completions/peer.bash", "completions/_peer", "completions/peer.fish"} {
		if len(files[name]) == 0 {
			t.Errorf("there is no %s", name)
		}
	}
}
