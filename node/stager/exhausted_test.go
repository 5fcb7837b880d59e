package stager

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
)

func TestAPeerThatMayOpenNoFileForInputsGivesTheirTasksBack(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOSPC} {
		if !noRoom(fmt.Errorf("make a copy: %w", errno)) {
			t.Errorf("%v: the tasks wait for this peer", errno)
		}
	}
	if noRoom(errors.New("no peer answers")) {
		t.Error("what others may bring is given up")
	}
}
