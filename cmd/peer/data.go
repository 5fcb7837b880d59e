package main

import (
	"os"
	"path/filepath"
	"runtime"

	"github.com/coveyproject/covey/cmd/peer/service"
	"github.com/coveyproject/covey/node/api/client"
)

// defaultData is the platform's place for state that a program keeps and a person does not edit.
func defaultData() string {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "."
	}
	switch runtime.GOOS {
	case "darwin":
		return filepath.Join(home, "Library", "Application Support", "covey")
	case "windows":
		if d := os.Getenv("LocalAppData"); d != "" {
			return filepath.Join(d, "covey")
		}
		return filepath.Join(home, "AppData", "Local", "covey")
	}
	if d := os.Getenv("XDG_STATE_HOME"); d != "" {
		return filepath.Join(d, "covey")
	}
	return filepath.Join(home, ".local", "state", "covey")
}

// howToStart is what to do where no peer answers with a data folder. Who looks for the machine's
// service in a folder of their own is not led to found a second cluster. Folders of the machine are
// below root.
func howToStart(root, data string) string {
	if filepath.Clean(data) != defaultData() {
		return client.Start
	}
	if _, err := os.Stat(filepath.Join(root, service.SystemData)); err != nil {
		return client.Start
	}
	const ask = "this machine's service keeps its data in " + service.SystemData + ": ask it with `sudo peer --data " + service.SystemData + " status`"
	if _, err := os.Stat(filepath.Join(data, "roster")); err == nil { // of a peer that comes back to its own cluster
		return client.Start + "; " + ask
	}
	return ask + "; a peer of your own joins it with a ticket of it, `peer up --join TICKET`"
}
