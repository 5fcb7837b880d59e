package main

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/coveyproject/covey/node/api"
)

// bundledAnswers are what a bundle has of a peer that runs, as its API gives it. None of them holds
// what jobs run, print or read.
var bundledAnswers = []struct{ name, path string }{
	{"status.json", "/v1/status"},
	{"stats.json", "/v1/stats"},
	{"settings.json", "/v1/settings"},
	{"peers.json", "/v1/peers"},
	{"links.json", "/v1/links"},
	{"load.json", "/v1/peers/self/load"},
	{"metrics.txt", "/metrics"},
}

const (
	maxBundled = 4 << 20 // bytes of one answer
	logTail    = 1 << 20 // bytes of one log, the newest
	storyTail  = 4096    // events
)

const bundleHead = `What ` + "`peer doctor --bundle`" + ` found, for somebody who helps. Made by %s, %s.

Read it before you send it: it names machines, users, addresses, labels and paths.

Not in it: keys (identity.key, seal.key), tokens, tickets and invites, policy.yaml, jobs with
their commands, env and secrets, what tasks printed or left. In logs and settings, what looks like
a key, a ticket, a token or a password is replaced by %s.
`

// bundle is a zip of what helps to find out what is wrong with a peer, and none of its secrets: it
// takes in what is listed here, and no file because it is there.
type bundle struct {
	zip     *zip.Writer
	at      time.Time
	without []string // what could not be had, and why
}

// writeBundle writes a file that is not there yet, for its user alone.
func (c *cli) writeBundle(ctx context.Context, path string, d checkups) error {
	b, err := c.gather(ctx, d)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return api.Errorf(api.Conflict, "--bundle %s: there is such a file; name another one", path)
	}
	if err == nil {
		_, err = f.Write(b)
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(path)
		}
	}
	if err != nil {
		return api.Errorf(api.Failed, "cannot write the bundle: %v; name a file on another disk", err)
	}
	fmt.Fprintf(c.Err, "wrote %s; see README.txt in it before you send it\n", path)
	return nil
}

// gather makes the zip. A peer that does not answer holds it up for doctorPatience at most.
func (c *cli) gather(ctx context.Context, d checkups) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, doctorPatience)
	defer cancel()
	var to bytes.Buffer
	b := &bundle{zip: zip.NewWriter(&to), at: d.AsOf}
	var text bytes.Buffer
	writeCheckups(&text, d.Peers, c.carry)
	b.add("doctor.txt", text.Bytes(), nil)
	b.addJSON("doctor.json", d, nil)
	cl := c.client()
	defer cl.Close()
	for _, a := range bundledAnswers {
		data, err := readAnswer(cl.Raw(ctx, http.MethodGet, a.path, "", nil))
		b.add(a.name, data, err)
	}
	story, err := cl.Story(ctx, storyTail)
	story.Story = slices.DeleteFunc(story.Story, func(e api.StoryEvent) bool { return e.Job != "" })
	b.addJSON("story.json", story, err)
	for _, name := range []string{upFileName, logName, logName + olderName} {
		tail, err := tailOf(filepath.Join(c.data, name))
		if !errors.Is(err, fs.ErrNotExist) {
			b.add(name, tail, err)
		}
	}
	list, err := folderList(c.data)
	b.add("folder.txt", list, err)
	readme := fmt.Sprintf(bundleHead, versionLine(), d.AsOf.Format(time.RFC3339), removed)
	if len(b.without) > 0 {
		readme += "\nWhat could not be had:\n  " + strings.Join(b.without, "\n  ") + "\n"
	}
	b.add("README.txt", []byte(readme), nil)
	err = b.zip.Close()
	return to.Bytes(), err
}

// add takes in one file.
func (b *bundle) add(name string, data []byte, err error) {
	if err != nil {
		b.without = append(b.without, name+": "+strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	w, err := b.zip.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: b.at})
	if err == nil {
		_, err = w.Write(scrub(data))
	}
	if err != nil { // a buffer takes everything, so that this is a name twice
		b.without = append(b.without, name+": "+err.Error())
	}
}

func (b *bundle) addJSON(name string, v any, err error) {
	var data bytes.Buffer
	if err == nil {
		err = writeJSON(&data, v)
	}
	b.add(name, data.Bytes(), err)
}

func readAnswer(body io.ReadCloser, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(io.LimitReader(body, maxBundled))
}

// tailOf is the end of a file, from the beginning of a line.
func tailOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	from := max(0, st.Size()-logTail)
	data, err := io.ReadAll(io.NewSectionReader(f, from, logTail))
	if from > 0 {
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	return data, err
}

// folderList lists a data folder and the ledger in it. Folders whose names are of jobs and files
// are one line each.
func folderList(dir string) ([]byte, error) {
	var out bytes.Buffer
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		if err != nil {
			fmt.Fprintf(&out, "%s: %v\n", name, err)
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return nil //nolint:nilerr // it went meanwhile
		}
		fmt.Fprintf(&out, "%s %12d %s %s\n", info.Mode(), info.Size(), info.ModTime().UTC().Format(time.RFC3339), name)
		if e.IsDir() && name != "." && name != "ledger" && filepath.Dir(name) != "ledger" {
			return fs.SkipDir
		}
		return nil
	})
	return out.Bytes(), err
}

// removed stands where something that looked like a secret was.
const removed = "[removed]"

// secretShapes are what secrets look like. What their groups hold stays.
var secretShapes = regexp.MustCompile(strings.Join([]string{
	`(?i:\bcovey1[a-z2-7]{20,})`,              // a ticket
	`\bcovey_[A-Z2-7]{20,}`,                   // a token
	`\b(?:[a-z2-7]{26,32}|[A-Z2-7]{26,32})\b`, // an invite's secret, the local API's token, a link to the page
	`\bAGE-SECRET-KEY-1[A-Z0-9]+`,
	`-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*`,
	`(?i:(\b(?:bearer|basic) )[\w.~+/=-]{8,})`,
	`(://[^/\s:@"]*:)[^/\s@"]+@`, // a password in an address
	`(?i:(\b[\w-]*(?:passw(?:or)?d|secret|token|api_?key|credential)[\w-]*\s?[=:]\s?)[^\s"'\\,;]+)`,
}, "|"))

// scrub takes out what looks like a secret.
func scrub(b []byte) []byte {
	return secretShapes.ReplaceAllFunc(b, func(found []byte) []byte {
		return append(slices.Concat(secretShapes.FindSubmatch(found)[1:]...), removed...)
	})
}
