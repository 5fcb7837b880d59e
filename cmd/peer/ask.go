package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// ask puts a question to the user and returns the line that was typed; io.EOF where nothing was.
func ask(ctx context.Context, s Streams, question string) (string, error) {
	fmt.Fprint(s.Err, question)
	type line struct {
		text string
		err  error
	}
	answer := make(chan line, 1)
	go func() { // ends with the answer, or with this process
		text, err := bufio.NewReader(s.In).ReadString('\n')
		answer <- line{strings.TrimSpace(text), err}
	}()
	select {
	case a := <-answer:
		return a.text, a.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// asksUser reports whether a user at a terminal can be asked.
func (s Streams) asksUser() bool {
	in, ok := s.In.(*os.File)
	return ok && term.IsTerminal(int(in.Fd()))
}
