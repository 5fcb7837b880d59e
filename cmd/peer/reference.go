package main

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/cmd/peer/manual"
	"github.com/coveyproject/covey/cmd/peer/service"
)

// packagedProgram is where packages put the program.
const packagedProgram = "/usr/bin/peer"

// referenceCommand writes what packages carry beside the program. It is hidden: who has a package
// has it all.
func referenceCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "reference DIR",
		Short:  "Write man pages, completions and service files, as packages carry them",
		Hidden: true,
		Args:   exactly(1, "a folder to write to"),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := packaged(cmd.Root())
			if err != nil {
				return err
			}
			for name, text := range files {
				path := filepath.Join(args[0], filepath.FromSlash(name))
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					return err
				}
				if err := os.WriteFile(path, text, 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// packaged are those files, by their paths below the folder.
func packaged(root *cobra.Command) (files map[string][]byte, err error) {
	files = map[string][]byte{
		"covey.service":    []byte(service.Unit(service.Spec{Program: packagedProgram, Data: service.SystemData, Env: service.SystemEnv, System: true})),
		"covey.peer.plist": []byte(service.Plist(service.Spec{Program: "/usr/local/bin/peer", Data: "/usr/local/var/covey"})),
	}
	for _, cmd := range manual.Commands(root) {
		files["man/"+manual.ManName(cmd)+".1"] = []byte(manual.Man(cmd, version()))
	}
	for name, write := range map[string]func(*bytes.Buffer) error{
		"peer.bash": func(b *bytes.Buffer) error { return root.GenBashCompletionV2(b, true) },
		"_peer":     func(b *bytes.Buffer) error { return root.GenZshCompletion(b) },
		"peer.fish": func(b *bytes.Buffer) error { return root.GenFishCompletion(b, true) },
		"peer.ps1":  func(b *bytes.Buffer) error { return root.GenPowerShellCompletionWithDesc(b) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return nil, err
		}
		files["completions/"+name] = b.Bytes()
	}
	return files, nil
}
