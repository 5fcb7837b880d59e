package supervise

import (
	"os"
	"path/filepath"
	"testing"
)

func TestASupervisorKeepsNoProtectionAgainstTheKernelsChoice(t *testing.T) {
	file := filepath.Join(t.TempDir(), "oom_score_adj")
	for was, want := range map[string]string{"-500\n": "0", "0\n": "0\n", "300\n": "300\n"} {
		if err := os.WriteFile(file, []byte(was), 0o600); err != nil {
			t.Fatal(err)
		}
		likeOthers(file)
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%q became %q: %v", was, got, err)
		}
	}
}
