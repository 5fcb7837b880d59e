package main

import (
	"os"
	"path/filepath"
	"runtime"
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
