package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/coveyproject/covey/node/api"

	"pgregory.net/rapid"
)

// upFlagSet is up's own flags, and what they are after args and the file of a data folder.
func upFlagSet(t interface{ Fatal(...any) }, args ...string) *pflag.FlagSet {
	c := &cli{}
	fl := upCommand(c).Flags()
	if err := fl.Parse(args); err != nil {
		t.Fatal(err)
	}
	return fl
}

func TestAFileOfFlagsIsReadStrictly(t *testing.T) {
	for text, says := range map[string]string{
		"cpu: 2\n":                    `:1:1: ` + "`peer up`" + ` remembers no "cpu" (did you mean cpus?)`,
		"cpus: 2\nlabel: [a=b]\nx: 1": ":3:1: ",
		"join: covey1abc\n":           `remembers no "join"`,
		"data: /tmp\n":                `remembers no "data"`,
		"cpus: 2\ncpus: 3\n":          `:2:1: mapping key "cpus" already defined`,
		"cpus: [1, 2]\n":              ":1:1: cpus: expected one value, not a list",
		"gpus: many\n":                ":1:1: ",
		"no-mdns: perhaps\n":          ":1:1: ",
		"label: {a: b}\n":             "expected a word, a number, or a list of them",
		"- cpus\n":                    "expected one list of KEY: VALUE",
		"just text\n":                 "expected one list of KEY: VALUE",
		"a: 1\n---\nb: 2\n":           "expected one list of KEY: VALUE",
		"cpus: 'open\n":               ":1:",
		"cpus:\n":                     "expected a word",
		strings.Repeat("#", 20000):    "larger than 16384 bytes",
	} {
		data := t.TempDir()
		if err := os.WriteFile(filepath.Join(data, upFileName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := recallUp(data, upFlagSet(t))
		if api.AsError(err).Code != api.Usage || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), upFileName) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestATypedFlagGoesBeforeTheFileAndThatBeforeTheDefault(t *testing.T) {
	data := t.TempDir()
	text := "# mine\ncpus: 3\nlabel:\n  - zone=west # near\n  - disk=ssd\n\n# the rest\nmemory: 4GiB\nno-mdns: true\n"
	if err := os.WriteFile(filepath.Join(data, upFileName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	fl := upFlagSet(t, "--label", "zone=east", "--gpus", "2", "--verbose", "--listen", "127.0.0.1:0")
	m, err := recallUp(data, fl)
	if err != nil {
		t.Fatal(err)
	}
	labels, _ := fl.GetStringArray("label")
	if cpus := fl.Lookup("cpus").Value.String(); cpus != "3" || fl.Lookup("no-mdns").Value.String() != "true" || !slices.Equal(labels, []string{"zone=east"}) {
		t.Errorf("cpus %s, labels %v", cpus, labels)
	}
	var said strings.Builder
	m.say(&said)
	for _, want := range []string{"remembered: --gpus 2 --label zone=east (was zone=west, disk=ssd) --listen", "as before: --cpus 3 --memory 4GiB --no-mdns true", "; for a default again, remove its line from " + m.file.path} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q is not said:\n%s", want, said.String())
		}
	}
	if err := m.keep(); err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(m.file.path)
	want := "# mine\ncpus: 3\nlabel: zone=east\n\n# the rest\nmemory: 4GiB\nno-mdns: true\ngpus: \"2\"\nlisten: 127.0.0.1:0\n"
	if string(b) != want {
		t.Errorf("the file is\n%s\nnot\n%s", b, want)
	}
	if st, err := os.Stat(m.file.path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	again, err := recallUp(data, upFlagSet(t, "--gpus", "2"))
	if err != nil || len(again.news) != 0 {
		t.Errorf("the same again is no news: %v, %v", again, err)
	}
	if once, err := recallUp(data, upFlagSet(t, "--cpus", "1", "--once")); err != nil || len(once.news) != 0 {
		t.Errorf("with --once nothing is remembered: %v, %v", once, err)
	}
}

// Whatever is typed start after start, a plain start goes by what each flag was told last.
func TestAPlainStartGoesByWhatEachFlagWasToldLast(t *testing.T) {
	odd := rapid.StringMatching(`[a-z][ -~]{0,12}`)
	rapid.Check(t, func(t *rapid.T) {
		data, err := os.MkdirTemp("", "covey-up")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(data)
		last := map[string][]string{}
		for range rapid.IntRange(1, 5).Draw(t, "starts") {
			var args []string
			for _, name := range []string{"name", "memory", "label", "listen", "cpus"} {
				if !rapid.Bool().Draw(t, name) {
					continue
				}
				n := 1
				if name == "label" || name == "listen" {
					n = rapid.IntRange(1, 3).Draw(t, "words")
				}
				last[name] = nil
				for range n {
					w := odd.Draw(t, "word")
					last[name] = append(last[name], w)
					args = append(args, fmt.Sprintf("--%s=%s", name, w))
				}
			}
			m, err := recallUp(data, upFlagSet(t, args...))
			if err == nil {
				err = m.keep()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		fl := upFlagSet(t)
		if _, err := recallUp(data, fl); err != nil {
			t.Fatal(err)
		}
		for name, want := range last {
			f := fl.Lookup(name)
			got := []string{f.Value.String()}
			if list, ok := f.Value.(pflag.SliceValue); ok {
				got = list.GetSlice()
			}
			if !slices.Equal(got, want) {
				t.Fatalf("--%s is %q, was told %q", name, got, want)
			}
		}
	})
}
