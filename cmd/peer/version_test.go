package main

import (
	"runtime/debug"
	"testing"
)

func TestAProgramWithoutAReleaseHasTheVersionOfItsBuild(t *testing.T) {
	commit := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}}
	for want, info := range map[string]*debug.BuildInfo{
		"1.2.3":             {Main: debug.Module{Version: "v1.2.3"}}, // go install …@v1.2.3
		source + "+0123456": {Main: debug.Module{Version: "v1.2.4-0.20260101000000-0123456789ab"}, Settings: commit},
		source:              {Main: debug.Module{Version: "(devel)"}},
	} {
		if got := built(info); got != want {
			t.Errorf("%+v: %s, not %s", info, got, want)
		}
	}
	if got := built(nil); got != source {
		t.Errorf("without: %s", got)
	}
}
