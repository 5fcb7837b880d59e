package jobfile

import (
	"fmt"
	"strings"

	"github.com/coveyproject/covey/taskstate/spell"
)

// ParseSize reads "256MiB", "1.5GB" or "0". Any other number needs its unit: 4 would be four bytes,
// and four gigabytes are meant. The error says what is wanted.
func ParseSize(s string) (int64, error) {
	n, err := spell.Size(s)
	if err == nil && n != 0 && strings.Trim(s, "0123456789.") == "" {
		return 0, fmt.Errorf("no unit: write %sGiB, %sMiB or %sB", clip(s), clip(s), clip(s))
	}
	return n, err
}

// ParseOutput reads how much is kept of each output file of a task, as ParseSize does.
func ParseOutput(s string) (int64, error) {
	n, err := ParseSize(s)
	if err == nil && (n < MinOutput || n > MaxOutput) {
		err = fmt.Errorf("expected %s to %s, got %s", size(MinOutput), size(MaxOutput), clip(s))
	}
	return n, err
}

func clip(s string) string { return spell.Clip(s) }
