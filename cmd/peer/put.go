package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	folder "github.com/coveyproject/covey/node/blob/disk"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/tree"
)

const putLong = `Keep files or folders on this peer, so that every peer can get them: what is printed is a name for
` + "`peer get`" + `, made of the content alone (BLAKE3; that of a file is what b3sum prints). The same
content has the same name everywhere, and is kept once.

Of a folder, empty folders, links that stay inside and x-bits are kept; owners and times are not.
What ` + "`.coveyignore`" + ` in it names is left out, and so is .git; its lines are as those of .gitignore,
and so is each --exclude. Pipes, sockets, devices and links that lead out of the folder are left
out, too, and named.`

// keptFor is how long what is put stays if nobody says.
const keptFor = 7 * 24 * time.Hour

func putCommand(c *cli) *cobra.Command {
	var length time.Duration
	var exclude []string
	cmd := &cobra.Command{
		Use: "put PATH…", Short: "Keep files or folders here, for any peer to get", Long: putLong,
		Example: `  peer put data/                       prints b3:…/
  peer put movie.mp4 --for 30d
  there=$(peer put data/); ssh other peer get $there --to data`,
		Args: atLeastOne("a file or a folder"),
		RunE: untilCtrlC(func(cmd *cobra.Command, args []string) error {
			if err := checkExclude(exclude); err != nil {
				return err
			}
			return c.eachOf(args, func(path string) error { return put(cmd.Context(), c, path, exclude, length) })
		}),
	}
	excludeVar(cmd.Flags(), &exclude)
	durationVar(cmd.Flags(), &length, "for", keptFor, "keep it for `D` at least; 0s: until `peer unput`")
	return cmd
}

// excludeVar is what is left out of folders.
func excludeVar(fl *pflag.FlagSet, exclude *[]string) {
	fl.StringArrayVar(exclude, "exclude", nil, "leave out of folders what `GLOB` matches, as a line of .coveyignore does (repeatable)")
}

// checkExclude refuses what is no pattern.
func checkExclude(exclude []string) error {
	for _, line := range exclude {
		if err := new(tree.Ignore).Add(line); err != nil {
			return api.Errorf(api.Usage, "--exclude: %v", err)
		}
	}
	return nil
}

func put(ctx context.Context, c *cli, path string, exclude []string, length time.Duration) error {
	p := c.putting(ctx, path, length)
	p.exclude = exclude
	v, err := p.put()
	return emit(c, err, v, []api.Put{v}, func(w io.Writer) {
		fmt.Fprintln(w, v.Ref)
		fmt.Fprintf(c.Err, "%s %s, kept here %s\n", printable(v.Name), putText(v), untilText(v.Until))
	})
}

func (c *cli) putting(ctx context.Context, path string, length time.Duration) *putting {
	return &putting{c: c, ctx: ctx, path: path, length: length, bar: newTransfer(c.Err, 0)}
}

// put sends what is there, and says what was left out.
func (p *putting) put() (v api.Put, err error) {
	p.api = p.c.client()
	defer p.api.Close()
	defer p.bar.done()
	if err := p.look(); err != nil {
		return v, err
	}
	v, err = p.api.PutFiles(p.ctx, p.write)
	if err == nil && v.Missing > 0 { // it was there when it was asked for, and is not any more
		p.all, p.skipped = true, nil
		p.bar.at(0)
		v, err = p.api.PutFiles(p.ctx, p.write)
	}
	if err == nil && v.Missing > 0 {
		err = api.Errorf(api.Failed, "%d files did not arrive; type it again", v.Missing)
	}
	p.bar.done()
	p.sayLeftOut()
	return v, err
}

// sum is what put would say of what is there. Nothing is sent.
func (p *putting) sum() (v api.Put, err error) {
	p.dry = true
	defer p.bar.done()
	if err := p.look(); err != nil {
		return v, err
	}
	v.Ref, err = p.ref()
	p.bar.done()
	p.sayLeftOut()
	v.Files, v.Bytes = p.totals.Files, p.totals.Bytes
	return v, err
}

// mostLeftOut is how many things that were left out are named.
const mostLeftOut = 16

func (p *putting) sayLeftOut() {
	for _, s := range p.skipped[:min(len(p.skipped), mostLeftOut)] {
		fmt.Fprintf(p.c.Err, "peer: left out: %q %s\n", s.Path, s.Why)
	}
	if more := len(p.skipped) - mostLeftOut; more > 0 {
		fmt.Fprintf(p.c.Err, "peer: left out: %d more like these\n", more)
	}
	if slices.ContainsFunc(p.skipped, func(s folder.Skipped) bool { return !strings.Contains(s.Why, tree.IgnoreFile) }) {
		fmt.Fprintf(p.c.Err, "peer: a line of %s, or --exclude, leaves things out without a word\n", printable(filepath.Join(p.path, tree.IgnoreFile)))
	}
}

// putText says what was put.
func putText(v api.Put) string {
	text := bytesText(v.Bytes)
	if v.Ref.Dir {
		text = fmt.Sprintf("%s in %s", text, countOf(v.Files, "file"))
	}
	if v.New < v.Bytes {
		text += fmt.Sprintf(", %s of them new here", bytesText(v.New))
	}
	return text
}

func untilText(until *time.Time) string {
	if until == nil {
		return "until `peer unput`"
	}
	return "until " + minute(*until)
}

// putting is one PATH on its way to the peer.
type putting struct {
	c       *cli
	ctx     context.Context
	api     *client.Client
	path    string
	length  time.Duration
	exclude []string
	dir     bool
	bar     *transfer
	dry     bool // send nothing
	all     bool // send also what the peer seems to have
	out     *api.PutWriter
	small   [piece.Size + 1]byte
	skipped []folder.Skipped
	totals  tree.Totals
	tops    map[string]bool // gets the names that are in the folder itself; may be nil
}

// look sees what the path is and, for a person who looks on, how much there is.
func (p *putting) look() error {
	info, err := os.Stat(p.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return api.Errorf(api.NotFound, "there is no %s", printable(p.path))
	case err != nil:
		return err
	case info.IsDir():
		p.dir = true
	case !info.Mode().IsRegular():
		return api.Errorf(api.Usage, "%s is neither a file nor a folder", printable(p.path))
	}
	p.bar.all = info.Size()
	if p.dir {
		p.bar.all = 0
		if p.bar.on {
			_, err = p.scan(func(_ context.Context, e tree.Entry, _ io.Reader) (piece.Root, int64, error) {
				p.bar.all += e.Size
				return piece.Root{}, e.Size, nil
			}, func(tree.Entry) error { return nil })
		}
	}
	return err
}

func (p *putting) scan(keep folder.Keep, each func(tree.Entry) error) ([]folder.Skipped, error) {
	root, err := os.OpenRoot(p.path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return folder.Scan(p.ctx, root, p.exclude, keep, each)
}

// write sends what the peer does not have.
func (p *putting) write(out *api.PutWriter) error {
	p.out = out
	full, err := filepath.Abs(p.path)
	if err != nil {
		return err
	}
	end := api.PutEnd{Name: filepath.Base(full), For: p.length.Seconds()}
	if end.Ref, err = p.ref(); err != nil {
		return err
	}
	return out.End(end)
}

// ref goes through all that there is.
func (p *putting) ref() (tree.Ref, error) {
	if p.dir {
		return p.folder()
	}
	return p.file()
}

func (p *putting) file() (ref tree.Ref, err error) {
	f, err := os.Open(p.path)
	if err != nil {
		return ref, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ref, err
	}
	root, size, err := p.keep(p.ctx, tree.Entry{Path: info.Name(), Kind: tree.File, Size: info.Size()}, f)
	p.totals = tree.Totals{Files: 1, Bytes: size}
	return tree.Ref{Root: root}, err
}

// folder sends the files of a folder, and then its tree, which waits in a file until then.
func (p *putting) folder() (ref tree.Ref, err error) {
	list, err := tempFile()
	if err != nil {
		return ref, err
	}
	defer list.Close()
	w := tree.NewWriter(list)
	add := func(e tree.Entry) error {
		if p.tops != nil && !strings.Contains(e.Path, "/") {
			p.tops[e.Path] = true
		}
		return w.Add(e)
	}
	if p.skipped, err = p.scan(p.keep, add); err == nil {
		p.totals, err = w.Close()
	}
	if errors.Is(err, tree.ErrRefused) {
		return ref, api.Errorf(api.Usage, "%s cannot be put: %v; a line of %s, or --exclude, leaves it out", printable(p.path), err, tree.IgnoreFile)
	}
	if errors.Is(err, fs.ErrPermission) {
		return ref, fmt.Errorf("%w; a line of %s, or --exclude, leaves it out", err, tree.IgnoreFile)
	}
	if err != nil {
		return ref, err
	}
	if _, err := list.Seek(0, io.SeekStart); err != nil {
		return ref, err
	}
	root, _, err := p.keep(p.ctx, tree.Entry{Path: p.path}, list)
	return tree.Ref{Root: root, Dir: true}, err
}

// keep sends one file: a small one at once, a large one if the peer says that it does not have it.
func (p *putting) keep(ctx context.Context, e tree.Entry, content io.Reader) (root piece.Root, size int64, err error) {
	b := api.PutBlob{Path: fmt.Sprintf("%.200q", e.Path)}
	n, err := io.ReadFull(content, p.small[:])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		b.Blob, b.Size = piece.Sum(p.small[:n]), int64(n)
		p.bar.add(b.Size)
		if p.dry {
			return b.Blob, b.Size, nil
		}
		err = p.out.Blob(b, bytes.NewReader(p.small[:n]))
		return b.Blob, b.Size, err
	}
	if err != nil {
		return root, 0, err
	}
	h := piece.NewHasher()
	_, _ = h.Write(p.small[:n])
	if _, err := h.ReadFrom(content); err != nil {
		return root, 0, err
	}
	b.Blob, _, b.Size = h.Sum()
	if p.dry {
		p.bar.add(b.Size)
		return b.Blob, b.Size, nil
	}
	if !p.all {
		here, err := p.api.HaveBlobs(ctx, api.Blobs{Blobs: []piece.Root{b.Blob}})
		if err != nil {
			return root, 0, err
		}
		if len(here.Blobs) > 0 {
			p.bar.add(b.Size)
			return b.Blob, b.Size, p.out.Blob(b, nil)
		}
	}
	again, ok := content.(io.Seeker)
	if !ok {
		return root, 0, errors.New("cannot be read twice")
	}
	if _, err := again.Seek(0, io.SeekStart); err != nil {
		return root, 0, err
	}
	return b.Blob, b.Size, p.out.Blob(b, &counted{content, p.bar})
}

// counted counts what is read.
type counted struct {
	r   io.Reader
	bar *transfer
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.bar.add(int64(n))
	return n, err
}

func unputCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "unput NAME…", Short: "Let go of what was put here",
		Long: `Let what was put on this peer be removed when room is needed: by the name that ` + "`peer put`" + ` printed,
by the beginning of it, or by what the file or folder was called. ` + "`peer df`" + ` lists what was put.`,
		Example: "  peer unput data\n  peer unput b3:8d24f9…",
		Args:    atLeastOne("what was put: its b3: name, or what it was called"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.eachOf(args, func(name string) error {
				v, err := c.client().Unput(cmd.Context(), name)
				return emit(c, err, v, []api.Put{v}, func(io.Writer) {
					fmt.Fprintf(c.Err, "%s (%s) makes room when room is needed\n", printable(v.Name), v.Ref)
				})
			})
		},
	}
}
