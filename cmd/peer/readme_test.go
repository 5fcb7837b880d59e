package main

import (
	"os"
	"strings"
	"testing"
)

func TestTheReadmeNamesEveryCommand(t *testing.T) {
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## Commands\n")
	table, _, _ = strings.Cut(table, "\n## ")
	for _, cmd := range (&cli{}).root().Commands() {
		if !cmd.Hidden && !strings.Contains(table, "`"+cmd.Name()+"`") {
			t.Errorf("the table of commands in README.md lacks %s", cmd.Name())
		}
	}
}
