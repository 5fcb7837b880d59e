package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	folder "github.com/coveyproject/covey/node/blob/disk"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/tree"
)

// taskFiles is what one task left, and the folder where it belongs.
type taskFiles struct {
	task    string
	ref     tree.Ref
	bytes   int64
	files   int
	slot    int
	item    string   // its bytes
	dir     string   // below homeFolder.top
	keepers []string // their names, which may repeat
	at      []string // and their ids
}

// parcelOf is what a task left.
func parcelOf(t api.Task) taskFiles {
	p := taskFiles{task: t.Called(), slot: t.Slot, item: taskItem(t), ref: *t.Output.Ref, bytes: t.Output.Bytes, files: t.Output.Files}
	for _, k := range t.Output.Keepers {
		p.keepers, p.at = append(p.keepers, cmp.Or(k.Name, shortID(k.Peer))), append(p.at, k.Peer)
	}
	return p
}

// bringer brings what tasks left to a folder of this machine. It is for one goroutine at a time.
type bringer struct {
	api   *client.Client
	to    string // as it was typed; "" is the current folder
	at    homeFolder
	flat  bool // all into one folder
	force bool
	had   *broughtList // what may be replaced; nil: nothing

	progress func(bytes int64) // of files, as they are written or found; may be nil
	heard    func(from []api.Source)

	from  []api.Source // the peers that sent something so far, and how much
	dirs  foldersTaken
	taken map[string]flatOne // flat: what was written, by path
	fresh map[string]flatOne // and what is to be
}

// flatOne is an entry in the one folder that all files come into, and the task it is of.
type flatOne struct {
	tree.Entry
	task string
}

// place is where files are written, for people.
func (h *bringer) place() string { return cmp.Or(h.to, ".") }

// settle gives what tasks left its folders.
func (h *bringer) settle(parcels []taskFiles) (err error) {
	if h.dirs == nil {
		h.dirs = foldersTaken{}
	}
	for i := range parcels {
		p := &parcels[i]
		if p.dir, err = h.at.of(p.slot, p.item); err != nil {
			return err
		}
		if err = h.dirs.take(p.dir, fmt.Sprintf("task %d (%s)", p.slot, p.item)); err != nil {
			return err
		}
	}
	return nil
}

// bring writes what some tasks left: all of it, or, if a file is in the way, nothing.
func (h *bringer) bring(ctx context.Context, parcels []taskFiles) (report folder.Report, err error) {
	defer func() { err = h.explain(err, parcels) }()
	if err := h.settle(parcels); err != nil {
		return report, err
	}
	lists, err := h.lists(ctx, parcels)
	if err != nil {
		return report, err
	}
	defer lists.file.Close()
	entries, err := h.entries(lists, parcels)
	if err != nil {
		return report, err
	}
	root, err := openFolder(h.at.top)
	if err != nil {
		return report, err
	}
	defer root.Close()
	files := &filesFlow{h: h, ctx: ctx, entries: entries}
	defer files.close()
	o := folder.WriteOptions{Force: h.force, Need: files.need, Begin: files.begin, Open: files.open, Progress: h.progress}
	if h.had != nil {
		h.had.open(h.at.top)
		o.Brought, o.Wrote = h.had.at, h.had.wrote
	}
	report, err = folder.Write(ctx, root, files.numbered(entries), o)
	if err == nil && h.flat {
		maps.Copy(h.taken, h.fresh)
	}
	return report, err
}

// openFolder makes a folder of this machine, if it is not there.
func openFolder(to string) (*os.Root, error) {
	to = cmp.Or(to, ".")
	if err := noFile(to); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(to, 0o777); err != nil {
		return nil, api.Errorf(api.Failed, "%v", err)
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return nil, api.Errorf(api.Failed, "%v", err)
	}
	return root, nil
}

// treeLists holds what says what is in folders, one behind the other in a file without a name.
type treeLists struct {
	file *os.File
	at   map[piece.Root]span
}

type span struct{ begin, size int64 }

// of gives the entries of a folder.
func (l *treeLists) of(root piece.Root) iter.Seq2[tree.Entry, error] {
	s := l.at[root]
	return tree.Entries(func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(l.file, s.begin, s.size)), nil
	})
}

// lists brings what says what is in some folders, and checks all of it.
func (h *bringer) lists(ctx context.Context, parcels []taskFiles) (l *treeLists, err error) {
	var wants []api.SizedBlob
	file, err := tempFile()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	l = &treeLists{file: file, at: map[piece.Root]span{}}
	for _, p := range parcels {
		if _, twice := l.at[p.ref.Root]; !twice {
			l.at[p.ref.Root] = span{}
			wants = append(wants, api.SizedBlob{Blob: p.ref.Root, Size: -1})
		}
	}
	end := int64(0)
	for some := range slices.Chunk(wants, api.MaxBlobs) {
		if end, err = h.append(ctx, l, end, some); err != nil {
			return nil, err
		}
	}
	for root := range l.at {
		for _, err := range l.of(root) {
			if err != nil {
				return nil, err
			}
		}
	}
	return l, nil
}

// append adds the lists of some folders, and tells where they end.
func (h *bringer) append(ctx context.Context, l *treeLists, end int64, wants []api.SizedBlob) (int64, error) {
	r, err := h.api.GetFiles(ctx, api.GetFiles{Blobs: wants})
	if err != nil {
		return end, err
	}
	defer r.Close()
	for range wants {
		root, _, err := r.Next()
		if err != nil {
			return end, err
		}
		sum := piece.NewHasher()
		n, err := io.Copy(io.MultiWriter(l.file, sum), r)
		if err != nil {
			return end, err
		}
		if is, _, _ := sum.Sum(); is != root {
			return end, api.Errorf(api.Failed, "what came for %s is something else", root)
		}
		l.at[root] = span{end, n}
		end += n
	}
	return end, nil
}

// entries are all that is to be written, in the order of their folders.
func (h *bringer) entries(l *treeLists, parcels []taskFiles) (iter.Seq2[tree.Entry, error], error) {
	if h.flat {
		return h.oneFolder(l, parcels)
	}
	return func(yield func(tree.Entry, error) bool) {
		for _, p := range parcels {
			before := ""
			for _, dir := range dirsAround(p.dir) {
				before = dir + "/"
				if !yield(tree.Entry{Path: dir, Kind: tree.Dir}, nil) {
					return
				}
			}
			for e, err := range l.of(p.ref.Root) {
				e.Path = before + e.Path
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
	}, nil
}

// oneFolder joins what all tasks left into one folder, where two of a name must be the same.
func (h *bringer) oneFolder(l *treeLists, parcels []taskFiles) (iter.Seq2[tree.Entry, error], error) {
	if h.taken == nil {
		h.taken = map[string]flatOne{}
	}
	h.fresh = map[string]flatOne{}
	var all []tree.Entry
	for _, p := range parcels {
		for e, err := range l.of(p.ref.Root) {
			if err != nil {
				return nil, err
			}
			was, twice := h.taken[e.Path]
			if !twice {
				was, twice = h.fresh[e.Path]
			}
			switch {
			case twice && was.Entry != e:
				return nil, api.Errorf(api.Conflict, "%q is of both task %s and task %s, and they differ; nothing was written. Without --flat the files of each task have a folder of their own",
					e.Path, was.task, p.task)
			case !twice:
				h.fresh[e.Path] = flatOne{e, p.task}
				all = append(all, e)
			case e.Kind == tree.Dir: // what is below it may be new
				all = append(all, e)
			}
		}
		if len(all) > tree.MaxEntries {
			return nil, api.Errorf(api.Usage, "these are more than %d files, too many for one folder; leave --flat out", tree.MaxEntries)
		}
	}
	order := strings.NewReplacer("/", "\x00") // no path has that
	slices.SortFunc(all, func(a, b tree.Entry) int { return strings.Compare(order.Replace(a.Path), order.Replace(b.Path)) })
	all = slices.CompactFunc(all, func(a, b tree.Entry) bool { return a.Path == b.Path })
	return func(yield func(tree.Entry, error) bool) {
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}, nil
}

// filesFlow gives the content of files in the order in which it is needed, some thousands of them
// at a time.
type filesFlow struct {
	h       *bringer
	ctx     context.Context
	entries iter.Seq2[tree.Entry, error]

	all    bool   // every file is needed that is not empty
	needed []byte // else: a bit for each
	file   int    // the number of the one at hand
	next   func() (tree.Entry, error, bool)
	stop   func()

	r    *api.FileReader
	left int          // files that r has yet to give
	from []api.Source // of r
	gone []api.Source // of those before it
}

// numbered counts the files, so that it is known which one is at hand.
func (f *filesFlow) numbered(entries iter.Seq2[tree.Entry, error]) iter.Seq2[tree.Entry, error] {
	return func(yield func(tree.Entry, error) bool) {
		f.file = -1
		for e, err := range entries {
			if err == nil && e.Kind == tree.File {
				f.file++
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (f *filesFlow) need(tree.Entry) {
	for f.file/8 >= len(f.needed) {
		f.needed = append(f.needed, 0)
	}
	f.needed[f.file/8] |= 1 << (f.file % 8)
}

// begin is called when it is known what is needed.
func (f *filesFlow) begin(tree.Totals) error {
	f.next, f.stop = iter.Pull2(func(yield func(tree.Entry, error) bool) {
		n := -1
		for e, err := range f.entries {
			if err == nil && e.Kind != tree.File {
				continue
			}
			n++
			if err == nil && !f.needs(n, e) {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	})
	return nil
}

// needs tells whether the n-th file is asked for.
func (f *filesFlow) needs(n int, e tree.Entry) bool {
	if f.all {
		return e.Size > 0
	}
	return n/8 < len(f.needed) && f.needed[n/8]&(1<<(n%8)) != 0
}

// open gives the file at hand.
func (f *filesFlow) open(_ context.Context, e tree.Entry) (io.ReadCloser, error) {
	if f.left == 0 {
		if err := f.more(); err != nil {
			return nil, err
		}
	}
	f.left--
	root, _, err := f.r.Next()
	if errors.Is(err, io.EOF) || err == nil && root != e.Root {
		err = api.Errorf(api.Failed, "the peer did not send it")
	}
	return io.NopCloser(f.r), err
}

// more asks for the next files.
func (f *filesFlow) more() error {
	f.end()
	var q api.GetFiles
	for len(q.Blobs) < api.MaxBlobs {
		e, err, ok := f.next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		q.Blobs = append(q.Blobs, api.SizedBlob{Blob: e.Root, Size: e.Size})
	}
	if len(q.Blobs) == 0 {
		return api.Errorf(api.Failed, "more files were asked for than are needed")
	}
	r, err := f.h.api.GetFiles(f.ctx, q)
	if err != nil {
		return err
	}
	f.r, f.left = r, len(q.Blobs)
	r.Heard = func(p api.Fetching) {
		f.from = p.From
		if f.h.heard != nil {
			f.h.heard(addSources(f.h.from, addSources(f.gone, f.from)))
		}
	}
	return nil
}

// end hears the last word on where files came from.
func (f *filesFlow) end() {
	if f.r == nil {
		return
	}
	if f.left == 0 {
		_, _, _ = f.r.Next()
	}
	f.r.Close()
	f.gone = addSources(f.gone, f.from)
	f.r, f.from = nil, nil
}

func (f *filesFlow) close() {
	f.end()
	f.h.from = addSources(f.h.from, f.gone)
	if f.stop != nil {
		f.stop()
	}
}

// addSources is what came from whom in all, most first.
func addSources(a, b []api.Source) []api.Source {
	if len(a) == 0 || len(b) == 0 {
		return slices.Concat(a, b)
	}
	sum := slices.Clone(a)
	for _, s := range b {
		if i := slices.IndexFunc(sum, func(x api.Source) bool { return x.Peer == s.Peer }); i >= 0 {
			sum[i].Bytes += s.Bytes
		} else {
			sum = append(sum, s)
		}
	}
	slices.SortFunc(sum, func(a, b api.Source) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Peer, b.Peer))
	})
	return sum
}

// explain says what a person can do about an error.
func (h *bringer) explain(err error, parcels []taskFiles) error {
	if err == nil {
		return nil
	}
	var told *api.Error
	if !errors.As(err, &told) || told.Code != api.NoCoordinator {
		return explainWrite(h.place(), err)
	}
	keepers := keepersOf(parcels)
	if keepers == "" {
		return told
	}
	return api.Errorf(told.Code, "%s; kept by %s", told.Message, keepers)
}

// explainWrite says what a person can do about an error of writing a folder.
func explainWrite(to string, err error) error {
	var (
		way  *folder.InTheWay
		full *folder.NoRoom
	)
	switch {
	case errors.As(err, &way) && way.Folders:
		return api.Errorf(api.Conflict, "in %s %v; nothing was written. Move them away, or choose another place with --to", printable(to), way)
	case errors.As(err, &way):
		return api.Errorf(api.Conflict, "in %s %v; nothing was written. --force replaces what differs", printable(to), way)
	case errors.As(err, &full):
		return api.Errorf(api.Failed, "no room in %s: %s needed, %s free; make room and type it again, it goes on where it was", printable(to), bytesText(full.Needed), bytesText(full.Free))
	}
	return err
}

// homeText says how much is home, and where it came from.
func homeText(tasks int, r folder.Report, all int64, took string, from []api.Source) string {
	text := fmt.Sprintf("%s, %s in %s", countOf(tasks, "task"), bytesText(all), countOf(r.Wrote+r.Left-r.Links, "file"))
	if r.Links > 0 {
		text += " and " + countOf(r.Links, "link")
	}
	if r.Left > 0 {
		text += fmt.Sprintf(", %d there already", r.Left)
	}
	if r.Wrote > 0 && took != "" {
		text += " " + took
	}
	rest := r.Bytes
	for _, s := range from {
		rest -= s.Bytes
	}
	switch words := sourcesText(from); {
	case words != "" && rest > 0:
		text += fmt.Sprintf(": %s, %s were here", words, bytesText(rest))
	case words != "":
		text += ": " + words
	case r.Bytes > 0:
		text += ": all of it was here"
	}
	return text
}
