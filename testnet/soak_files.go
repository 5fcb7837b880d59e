package testnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/taskstate"
)

// soakSizes are of the larger of the two files that a task leaves: none, one piece of a blob,
// several.
var soakSizes = [...]int{0, 5000, 2_500_000}

// fileLine is a line for /bin/sh that leaves what soakFiles says.
func fileLine(id taskstate.JobID, size int) string {
	word := fmt.Sprintf("%s.$COVEY_SLOT", id)
	return fmt.Sprintf(`mkdir -p out/deep; echo "%s" > out/a; yes "%s" | head -c %d > out/deep/b`, word, word, size)
}

// soakFiles is what a task of such a job leaves.
func soakFiles(id taskstate.JobID, slot, size int) map[string]string {
	line := fmt.Sprintf("%s.%d\n", id, slot)
	return map[string]string{"out/a": line, "out/deep/b": strings.Repeat(line, size/len(line)+1)[:size]}
}

// judgeFiles fetches what every complete task left, from one peer or another, and compares it.
func (s *soak) judgeFiles(ctx context.Context) {
	n := 0
	for _, id := range s.order {
		x := s.jobs[id]
		if x.job.Outputs == nil || x.ended == nil || x.ended.State != "complete" {
			continue
		}
		n++
		k := 1 + n%s.net.N()
		if err := s.judgeFilesOf(ctx, id, x, k); err != nil {
			s.report.Wrong++
			s.trouble("job %s (%s): its files, asked of peer %d: %v", id, x.kind, k, err)
		}
	}
}

func (s *soak) judgeFilesOf(ctx context.Context, id string, x *soakJob, k int) error {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	ts, err := s.net.Client(k).Tasks(ctx, id)
	if err != nil {
		return err
	}
	seen := 0
	for _, t := range ts.Tasks {
		if t.State != "complete" {
			continue
		}
		seen++
		if t.Output == nil || t.Output.Ref == nil {
			return fmt.Errorf("task %s is complete, and nothing is kept of its files", t.ID)
		}
		if t.Output.Copies < t.Output.Keep {
			s.report.Owed++
		}
		got, err := readFolder(ctx, s.net.Client(k), *t.Output.Ref)
		if err != nil {
			return fmt.Errorf("task %s, made by %s: %w", t.ID, t.PeerName, err)
		}
		if why := difference(soakFiles(x.job.ID, t.Slot, x.size), got); why != "" {
			return fmt.Errorf("task %s, made by %s: %s", t.ID, t.PeerName, why)
		}
		s.report.Files += len(got)
	}
	if seen != x.job.Count {
		return fmt.Errorf("%d tasks of %d are complete", seen, x.job.Count)
	}
	return nil
}

// difference says how files differ, "" if they do not.
func difference(want, got map[string]string) string {
	if a, b := slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)); !slices.Equal(a, b) {
		return fmt.Sprintf("it left %q instead of %q", b, a)
	}
	for path, text := range want {
		if got[path] != text {
			return fmt.Sprintf("%s is not as it was written: %d bytes, of %d", path, len(got[path]), len(text))
		}
	}
	return ""
}

// readFolder brings all files of a folder.
func readFolder(ctx context.Context, c *client.Client, ref tree.Ref) (map[string]string, error) {
	list, err := readBlobs(ctx, c, api.GetFiles{Root: ref.Root})
	if err != nil {
		return nil, fmt.Errorf("the list of its files: %w", err)
	}
	if len(list) != 1 {
		return nil, fmt.Errorf("%d lists of its files came", len(list))
	}
	texts, err := readBlobs(ctx, c, api.GetFiles{Root: ref.Root, Files: true})
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for r := tree.NewReader(bytes.NewReader(list[0])); ; {
		e, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return files, nil
		case err != nil:
			return nil, err
		case e.Kind != tree.File:
		case e.Size == 0:
			files[e.Path] = ""
		case len(texts) == 0:
			return nil, fmt.Errorf("%s did not come", e.Path)
		default:
			files[e.Path], texts = string(texts[0]), texts[1:]
		}
	}
}

func readBlobs(ctx context.Context, c *client.Client, q api.GetFiles) (all [][]byte, err error) {
	r, err := c.GetFiles(ctx, q)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		if _, _, err := r.Next(); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
}
