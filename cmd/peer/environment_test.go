package main

import (
	"strings"
	"testing"
)

func TestAnEnvironmentThatMakesNoSenseIsReportedLikeAFlag(t *testing.T) {
	for name, value := range map[string]string{"PEER_GPUS": "many", "PEER_OPEN": "maybe", "PEER_OUTPUT": "nonsense"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			c, _, talk := speaking()
			code := Main(t.Context(), []string{"--data", t.TempDir(), "up", "--cpus", "nonsense"}, c.Streams)
			if text := talk.String(); code != 2 || !strings.Contains(text, value) || strings.Contains(text, "--cpus") {
				t.Errorf("exit %d, said %q", code, text)
			}
		})
	}
}
