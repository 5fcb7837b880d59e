package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	folder "github.com/coveyproject/covey/node/blob/disk"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/tree"
)

const getLong = `Bring the files that a job's tasks left to this machine, or what was put on some peer, by the name
that ` + "`peer put`" + ` printed, from whichever peers have it. Every byte is checked. A file that is there
already and equal is left as it is; one that differs is not touched, and nothing else is written
(exit 6), unless --force is given. Typed again after whatever broke it off, it goes on where it was.

The files of a task are written below --to (default the current folder), those of an array below
--to/ITEM, of another list below --to/SLOT: each task's in a folder of its own, or with --flat all
into --to. {} in --to is the item. A folder that was put is written below --to, a file to --to.

Which files a task leaves is said before it runs, by --out of ` + "`peer run`" + ` or outputs: of a job file.
Of a task that failed or was cancelled they are only brought with --partial. Exit 1: not all of them
are there, as some tasks have not ended, or not well; 4: no reachable peer has them.`

func getCommand(c *cli) *cobra.Command {
	g := &getting{c: c}
	cmd := &cobra.Command{
		Use: "get JOB[.SLOT]|NAME", Short: "Bring a job's files here, or what was put on some peer", Long: getLong,
		Example: `  peer get last --to frames             what the newest job's tasks left
  peer get sweep.17 --list              what task 17 of job sweep left
  peer get sweep --wait --to results    as its tasks end, until all have
  peer get last --tar | tar t
  peer get b3:8d24f9…/ --to data        a folder, below data
  peer get b3:51c0aa… --to movie.mp4    a file
  peer get b3:51c0aa… --to - | less     to stdout
  peer get b3:8d24f9…/ --list           what is in it`,
		Args: exactly(1, "a job, or the name that `peer put` printed"),
		RunE: untilCtrlC(func(cmd *cobra.Command, args []string) error {
			if err := noEmptyFlags(cmd); err != nil {
				return err
			}
			return g.run(cmd.Context(), args[0])
		}),
	}
	fl := cmd.Flags()
	fl.StringVar(&g.to, "to", "", "write to `PATH`: a folder; for a file a file, or - for stdout")
	fl.BoolVar(&g.tar, "tar", false, "write a tar to stdout")
	fl.BoolVar(&g.list, "list", false, "only list what there is")
	fl.BoolVar(&g.wait, "wait", false, "of a job: until its tasks have ended, files as they do")
	fl.BoolVar(&g.partial, "partial", false, "of a job: also what tasks wrote that failed or were cancelled")
	fl.BoolVar(&g.flat, "flat", false, "of a job: the files of all tasks into one folder")
	fl.BoolVar(&g.force, "force", false, "replace files that differ")
	return cmd
}

// getting is one `peer get`.
type getting struct {
	c                   *cli
	to                  string
	tar, list, force    bool
	wait, partial, flat bool // of a job

	api *client.Client
	ref tree.Ref
	bar *transfer
}

// got is what became of it.
type got struct {
	Ref tree.Ref `json:"ref"`
	To  string   `json:"to"`
	folder.Report
	From []api.Source `json:"from,omitempty"`
}

func (g *getting) run(ctx context.Context, name string) (err error) {
	g.api = g.c.client()
	defer g.api.Close()
	g.bar = newTransfer(g.c.Err, 0)
	defer g.bar.done()
	if !strings.HasPrefix(name, "b3:") {
		g.c.noteNamesakes(ctx, name)
		return g.ofJob(ctx, name)
	}
	if g.ref, err = tree.ParseRef(name); err != nil {
		return api.Errorf(api.Usage, "%.100q is no name of a file or folder: expected b3: and 64 hex digits, with a slash behind them for a folder", name)
	}
	if err := g.check(); err != nil {
		return err
	}
	if !g.ref.Dir {
		return g.file(ctx)
	}
	list, totals, err := g.tree(ctx)
	if err != nil {
		return err
	}
	defer list.Close()
	entries := tree.Entries(func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(list, 0, totals.size)), nil
	})
	switch {
	case g.list:
		return g.show(entries)
	case g.tar:
		return g.archive(ctx, entries, totals)
	}
	return g.folder(ctx, entries, totals)
}

// check refuses words that do not go together.
func (g *getting) check() error {
	switch {
	case g.wait || g.partial || g.flat:
		return api.Errorf(api.Usage, "--wait, --partial and --flat are about the files of a job, and %s is a name of files", g.ref)
	case g.tar && g.list:
		return api.Errorf(api.Usage, "--tar does not go with --list")
	case (g.tar || g.list) && (g.to != "" || g.force):
		return api.Errorf(api.Usage, "--tar and --list write to stdout: they take neither --to nor --force")
	case (g.tar || g.list) && !g.ref.Dir:
		return api.Errorf(api.Usage, "%s is a file: --tar and --list are for folders, whose names end with a slash", g.ref)
	case g.ref.Dir && g.to == "-":
		return api.Errorf(api.Usage, "a folder goes to stdout with --tar")
	case !g.ref.Dir && g.to == "":
		return api.Errorf(api.Usage, "%s is a file and has no name of its own: say --to FILE, or --to - for stdout", g.ref)
	case (g.tar || g.to == "-") && g.c.output != tableFormat && !g.c.outputFromEnv:
		return api.Errorf(api.Usage, "the bytes go to stdout, so there is no room for -o %s", g.c.output)
	case g.tar && isTerminal(g.c.Out):
		return api.Errorf(api.Usage, "a tar is not for a terminal: write it to a file or a pipe, as in `peer get %s --tar | tar t`", g.ref)
	}
	return nil
}

// open asks the peer for something.
func (g *getting) open(ctx context.Context, q api.GetFiles) (*api.FileReader, error) {
	r, err := g.api.GetFiles(ctx, q)
	if err == nil {
		r.Heard = g.heard
	}
	return r, err
}

func (g *getting) heard(f api.Fetching) {
	g.bar.from = f.From
	if f.Bytes > g.bar.come { // they come faster, or in another order, than they are written
		g.bar.ahead(f.Bytes)
	}
}

// tempFile is a file without a name.
func tempFile() (*os.File, error) {
	f, err := os.CreateTemp("", "peer-files-")
	if err == nil {
		_ = os.Remove(f.Name()) // else the system does, in time
	}
	return f, err
}

// totals is what a folder comes to, and how long its tree is.
type totals struct {
	tree.Totals
	size int64
}

// tree brings what says what is in the folder, and checks all of it.
func (g *getting) tree(ctx context.Context) (list *os.File, all totals, err error) {
	r, err := g.open(ctx, api.GetFiles{Root: g.ref.Root})
	if err != nil {
		return nil, all, err
	}
	defer r.Close()
	if list, err = tempFile(); err != nil {
		return nil, all, err
	}
	defer func() {
		if err != nil {
			list.Close()
		}
	}()
	if _, all.size, err = r.Next(); err != nil {
		return nil, all, err
	}
	h := piece.NewHasher()
	if _, err := io.Copy(io.MultiWriter(list, h), r); err != nil {
		return nil, all, err
	}
	if root, _, _ := h.Sum(); root != g.ref.Root {
		return nil, all, api.Errorf(api.Failed, "what came for %s is something else", g.ref)
	}
	t := tree.NewReader(io.NewSectionReader(list, 0, all.size))
	for {
		_, err := t.Next()
		if errors.Is(err, io.EOF) {
			all.Totals = t.Totals()
			return list, all, nil
		}
		if errors.Is(err, tree.ErrRefused) {
			return nil, all, api.Errorf(api.Failed, "%s is no folder: %v; is it a file? Leave the slash out then", g.ref, err)
		}
		if err != nil {
			return nil, all, err
		}
	}
}

// row is an entry for people and programs.
type row struct {
	Path   string      `json:"path"`
	Kind   string      `json:"kind"`
	Exec   bool        `json:"exec,omitempty"`
	Size   int64       `json:"size,omitempty"`
	Blob   *piece.Root `json:"blob,omitempty"`
	Target string      `json:"target,omitempty"`
}

func rowOf(e tree.Entry) row {
	r := row{Path: strings.ToValidUTF8(e.Path, "�"), Kind: e.Kind.String(), Exec: e.Exec, Size: e.Size, Target: strings.ToValidUTF8(e.Target, "�")}
	if e.Kind == tree.File {
		r.Blob = &e.Root
	}
	return r
}

// show lists a folder.
func (g *getting) show(entries iter.Seq2[tree.Entry, error]) error {
	return g.showAs(entries, func(rows []row) any {
		return struct {
			Ref     tree.Ref `json:"ref"`
			Entries []row    `json:"entries"`
		}{g.ref, rows}
	})
}

// showAs lists entries as they are read: they may be many. whole is the answer in JSON.
func (g *getting) showAs(entries iter.Seq2[tree.Entry, error], whole func([]row) any) error {
	if g.c.output == "json" {
		rows := []row{}
		for e, err := range entries {
			if err != nil {
				return err
			}
			rows = append(rows, rowOf(e))
		}
		return writeJSON(g.c.Out, whole(rows))
	}
	for e, err := range entries {
		if err != nil {
			return err
		}
		if g.c.output == "jsonl" {
			err = writeLine(g.c.Out, rowOf(e))
		} else {
			_, err = fmt.Fprintln(g.c.Out, listLine(e))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func listLine(e tree.Entry) string {
	size, after := "-", ""
	switch {
	case e.Kind == tree.Dir:
		after = "/"
	case e.Kind == tree.Link:
		after = " -> " + printable(e.Target)
	case e.Exec:
		after = "*"
		fallthrough
	default:
		size = bytesText(e.Size)
	}
	return fmt.Sprintf("%9s  %s%s", size, printable(e.Path), after)
}

// incoming is the files of a folder as they come.
type incoming struct {
	g    *getting
	ctx  context.Context
	skip []byte // files that are not asked for
	file int    // the number of the one that is at hand
	r    *api.FileReader
}

// numbered is a tree that counts its files, so that it is known which one is at hand.
func (in *incoming) numbered(entries iter.Seq2[tree.Entry, error]) iter.Seq2[tree.Entry, error] {
	return func(yield func(tree.Entry, error) bool) {
		in.file = -1
		for e, err := range entries {
			if err == nil && e.Kind == tree.File {
				in.file++
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// need asks for the file at hand; skip holds all files until then.
func (in *incoming) need(tree.Entry) { in.skip[in.file/8] &^= 1 << (in.file % 8) }

// begin asks for what is needed, in one go.
func (in *incoming) begin(needed tree.Totals) (err error) {
	if needed.Files > 0 {
		in.r, err = in.g.open(in.ctx, api.GetFiles{Root: in.g.ref.Root, Files: true, Skip: in.skip})
	}
	return err
}

// open gives the file at hand.
func (in *incoming) open(_ context.Context, e tree.Entry) (io.ReadCloser, error) {
	for {
		root, _, err := in.r.Next()
		if errors.Is(err, io.EOF) {
			err = api.Errorf(api.Failed, "the peer did not send it")
		}
		if err != nil || root == e.Root {
			return io.NopCloser(in.r), err
		}
	}
}

// end hears the last word on where they came from.
func (in *incoming) end() {
	if in.r != nil {
		_, _, _ = in.r.Next()
	}
}

func (in *incoming) close() {
	if in.r != nil {
		in.r.Close()
	}
}

func (g *getting) folder(ctx context.Context, entries iter.Seq2[tree.Entry, error], all totals) error {
	to := cmp.Or(g.to, ".")
	root, err := openFolder(to)
	if err != nil {
		return err
	}
	defer root.Close()
	in := &incoming{g: g, ctx: ctx, skip: bytes.Repeat([]byte{0xff}, (all.Files+7)/8)}
	defer in.close()
	g.bar.all = all.Bytes
	report, err := folder.Write(ctx, root, in.numbered(entries), folder.WriteOptions{
		Force: g.force, Need: in.need, Begin: in.begin, Open: in.open, Progress: g.bar.add,
	})
	if err != nil {
		return explainWrite(to, err)
	}
	in.end()
	return g.say(to, report)
}

// file brings one file. What is there is looked at before anybody is asked.
func (g *getting) file(ctx context.Context) error {
	if g.to == "-" {
		return g.stdout(ctx)
	}
	info, err := os.Stat(g.to)
	switch {
	case err == nil && info.IsDir():
		return api.Errorf(api.Usage, "%s is a folder, and the file has no name of its own: say --to %s", printable(g.to), printable(filepath.Join(g.to, "NAME")))
	case err == nil && !info.Mode().IsRegular():
		return api.Errorf(api.Conflict, "%s is no file; write there with `peer get %s --to - > …`", printable(g.to), g.ref)
	case err == nil:
		if same, err := g.isThere(ctx); same || err != nil {
			if err == nil {
				err = g.say(g.to, folder.Report{Left: 1})
			}
			return err
		}
		if !g.force {
			return explainWrite(filepath.Dir(g.to), &folder.InTheWay{Paths: []string{filepath.Base(g.to)}, Count: 1})
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	r, err := g.open(ctx, api.GetFiles{Root: g.ref.Root})
	if err != nil {
		return err
	}
	defer r.Close()
	_, size, err := r.Next()
	if err != nil {
		return err
	}
	g.bar.all = size
	content := bufio.NewReader(r)
	if head, _ := content.Peek(tree.HeadSize); tree.IsTree(head) {
		return api.Errorf(api.Usage, "%s is the list of a folder; type `peer get %s/ --to DIR` for what is in it, or --to - for the list itself", g.ref, g.ref)
	}
	dir, name := filepath.Split(g.to)
	root, err := openFolder(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	one := func(yield func(tree.Entry, error) bool) {
		yield(tree.Entry{Path: name, Kind: tree.File, Size: size, Root: g.ref.Root}, nil)
	}
	report, err := folder.Write(ctx, root, one, folder.WriteOptions{
		Force: g.force, Progress: g.bar.add,
		Open: func(context.Context, tree.Entry) (io.ReadCloser, error) { return io.NopCloser(content), nil },
	})
	if err != nil {
		return explainWrite(cmp.Or(dir, "."), err)
	}
	_, _, _ = r.Next() // the last word on where it came from
	return g.say(g.to, report)
}

// isThere tells whether the file is there already.
func (g *getting) isThere(ctx context.Context) (bool, error) {
	f, err := os.Open(g.to)
	if err != nil {
		return false, err
	}
	defer f.Close()
	root, _, err := folder.Hash(ctx, tree.Entry{}, f)
	return root == g.ref.Root, err
}

func (g *getting) stdout(ctx context.Context) error {
	r, err := g.open(ctx, api.GetFiles{Root: g.ref.Root})
	if err != nil {
		return err
	}
	defer r.Close()
	_, size, err := r.Next()
	if err != nil {
		return err
	}
	g.bar.all = size
	_, err = io.Copy(g.c.Out, &counted{r, g.bar})
	return err
}

// archive writes a tar as the files come.
func (g *getting) archive(ctx context.Context, entries iter.Seq2[tree.Entry, error], all totals) error {
	in := &incoming{g: g, ctx: ctx}
	defer in.close()
	g.bar.all = all.Bytes
	if err := in.begin(all.Totals); err != nil {
		return err
	}
	return g.tarOf(ctx, in.numbered(entries), in.open)
}

// tarOf writes entries as a tar.
func (g *getting) tarOf(ctx context.Context, entries iter.Seq2[tree.Entry, error], open openFile) error {
	w := tar.NewWriter(g.c.Out)
	for e, err := range entries {
		if err == nil {
			err = g.member(ctx, w, open, e)
		}
		if err != nil {
			return err
		}
	}
	return w.Close()
}

// openFile gives the content of a file.
type openFile func(context.Context, tree.Entry) (io.ReadCloser, error)

func (g *getting) member(ctx context.Context, w *tar.Writer, open openFile, e tree.Entry) error {
	h := &tar.Header{Name: e.Path, Mode: 0o644, Typeflag: tar.TypeReg, Size: e.Size}
	switch {
	case e.Kind == tree.Dir:
		h.Name, h.Typeflag, h.Mode = e.Path+"/", tar.TypeDir, 0o755
	case e.Kind == tree.Link:
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, e.Target, 0o777
	case e.Exec:
		h.Mode = 0o755
	}
	if err := w.WriteHeader(h); err != nil || e.Size == 0 || e.Kind != tree.File {
		return err
	}
	r, err := open(ctx, e)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(w, &counted{r, g.bar})
	return err
}

// say says what became of it.
func (g *getting) say(to string, r folder.Report) error {
	g.bar.done()
	v := got{Ref: g.ref, To: to, Report: r, From: g.bar.from}
	return emit(g.c, nil, v, []got{v}, func(io.Writer) {
		text := fmt.Sprintf("%s: %s in %s", printable(to), bytesText(r.Bytes), countOf(r.Wrote-r.Links, "file"))
		if r.Links > 0 {
			text += " and " + countOf(r.Links, "link")
		}
		if r.Left > 0 {
			text += fmt.Sprintf(", %d there already", r.Left)
		}
		if r.Wrote > 0 {
			text += " " + g.bar.took(r.Bytes)
		}
		if from := sourcesText(v.From); from != "" {
			text += ": " + from
		}
		fmt.Fprintln(g.c.Err, text)
	})
}
