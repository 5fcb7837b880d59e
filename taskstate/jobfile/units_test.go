package jobfile_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/coveyproject/covey/taskstate/jobfile"
)

func TestNamesFromPaths(t *testing.T) {
	for in, want := range map[string]string{
		"frames.yaml": "frames", "/a/b/Frames.YML": "frames", "My Job (final).yaml": "my-job-final", "": "job", "-": "job", "ärger.yaml": "rger", "日本.yaml": "job",
		"/usr/bin/x264": "x264", "...": "job", "--x--": "x", strings.Repeat("a", 100) + ".yaml": strings.Repeat("a", 63), "a_b.c.yaml": "a-b-c",
	} {
		if got := jobfile.NameFrom(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestLinesOfAList(t *testing.T) {
	for in, want := range map[string][]string{
		"a\nb\n": {"a", "b"}, "a\nb": {"a", "b"}, "a\r\nb\r\n": {"a", "b"}, "\n a \n\t\n\nb": {" a ", "b"}, "\ufeffa": {"a"},
	} {
		if got, escaped, err := jobfile.Lines([]byte(in)); err != nil || escaped || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	for in, says := range map[string]string{"": "nothing to run", " \n\n": "nothing to run", strings.Repeat("\n", jobfile.MaxList+1): "more than"} {
		if _, _, err := jobfile.Lines([]byte(in)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.10q: %v, want %q", in, err, says)
		}
	}
}
