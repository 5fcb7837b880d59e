package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/tree"
)

// Skipped is what a scan left out although no rule says so.
type Skipped struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// ErrChanged is returned for what changed while it was read.
var ErrChanged = errors.New("changed while it was read")

// Keep takes the content of a file, and says what it was: how many bytes it read, and their name.
type Keep func(ctx context.Context, e tree.Entry, content io.Reader) (piece.Root, int64, error)

// Hash is the Keep that keeps nothing.
func Hash(_ context.Context, _ tree.Entry, content io.Reader) (piece.Root, int64, error) {
	h := piece.NewHasher()
	if _, err := h.ReadFrom(content); err != nil {
		return piece.Root{}, 0, err
	}
	root, _, size := h.Sum()
	return root, size, nil
}

// Scan hands the entries of a folder to each, in the order of a tree. What .coveyignore names is
// left out, and what exclude names, whose patterns are further lines of it. So are, and are
// returned, .git, what is no file, links that lead out of the folder, and what a broken off Write
// left behind. The content of every file goes to keep, which is given a
// file that it may also ask for more.
func Scan(ctx context.Context, root *os.Root, exclude []string, keep Keep, each func(tree.Entry) error) ([]Skipped, error) {
	rules, err := rules(root)
	for i := 0; err == nil && i < len(exclude); i++ {
		err = rules.Add(exclude[i])
	}
	if err != nil {
		return nil, err
	}
	s := &scan{ctx: ctx, rules: rules, keep: keep}
	s.each = func(e tree.Entry) error {
		if why := e.Astray(); e.Kind == tree.Link && why != "" {
			s.skip(e.Path, why)
			return nil
		}
		return each(e)
	}
	err = s.folder(root, "")
	return s.skipped, err
}

func rules(root *os.Root) (*tree.Ignore, error) {
	info, err := root.Lstat(tree.IgnoreFile)
	if err != nil || !info.Mode().IsRegular() {
		return tree.ParseIgnore("")
	}
	f, err := open(root, tree.IgnoreFile, info)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, tree.MaxIgnore+1))
	if err != nil {
		return nil, err
	}
	return tree.ParseIgnore(string(text))
}

// open opens what info is about, and nothing that came in its place.
func open(dir *os.Root, name string, info fs.FileInfo) (*os.File, error) {
	f, err := dir.OpenFile(name, os.O_RDONLY|noWaiting, 0)
	if err != nil {
		return nil, err
	}
	if is, err := f.Stat(); err != nil || !os.SameFile(is, info) {
		f.Close()
		return nil, fmt.Errorf("%q %w", name, ErrChanged)
	}
	return f, nil
}

// openDir is open for a folder.
func openDir(dir *os.Root, name string, info fs.FileInfo) (*os.Root, error) {
	sub, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if is, err := sub.Stat("."); err != nil || !os.SameFile(is, info) {
		sub.Close()
		return nil, fmt.Errorf("%q %w", name, ErrChanged)
	}
	return sub, nil
}

type scan struct {
	ctx     context.Context
	rules   *tree.Ignore
	keep    Keep
	each    func(tree.Entry) error
	skipped []Skipped
}

func (s *scan) skip(path, why string) { s.skipped = append(s.skipped, Skipped{path, why}) }

func (s *scan) folder(dir *os.Root, above string) error {
	names, err := namesIn(dir)
	if err != nil {
		return fmt.Errorf("%q: %w", above, err)
	}
	for _, name := range names {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		info, err := dir.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // gone since it was listed
		}
		if err == nil {
			err = s.entry(dir, above+name, info)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func namesIn(dir *os.Root) ([]string, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

func (s *scan) entry(dir *os.Root, path string, info fs.FileInfo) error {
	name := info.Name()
	switch {
	case s.rules.Skips(path, info.IsDir()):
		if name == ".git" {
			s.skip(path, "is not taken unless "+tree.IgnoreFile+" says !.git")
		}
		return nil
	case isPart(name):
		s.skip(path, "was left by a writing that was broken off")
		return nil
	}
	if !info.IsDir() {
		return s.leaf(dir, path, info)
	}
	if err := s.each(tree.Entry{Path: path, Kind: tree.Dir}); err != nil {
		return err
	}
	sub, err := openDir(dir, name, info)
	if err != nil {
		return fmt.Errorf("%q: %w", path, err)
	}
	defer sub.Close()
	return s.folder(sub, path+"/")
}

// leaf hands on what is no folder, or leaves it out by name.
func (s *scan) leaf(dir *os.Root, path string, info fs.FileInfo) error {
	switch info.Mode().Type() {
	case 0:
		return s.file(dir, path, info)
	case fs.ModeSymlink:
		target, err := dir.Readlink(info.Name())
		if err != nil {
			return fmt.Errorf("%q: %w", path, err)
		}
		return s.each(tree.Entry{Path: path, Kind: tree.Link, Target: slashed(target)})
	case fs.ModeNamedPipe:
		s.skip(path, "is a FIFO")
	case fs.ModeSocket:
		s.skip(path, "is a socket")
	case fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice:
		s.skip(path, "is a device")
	default:
		s.skip(path, "is no file")
	}
	return nil
}

// unread is why a file could not be opened, as opposed to why its content could not be kept.
type unread struct{ error }

func (u unread) Unwrap() error { return u.error }

func (s *scan) file(dir *os.Root, path string, info fs.FileInfo) error {
	e := tree.Entry{Path: path, Kind: tree.File, Exec: info.Mode()&0o100 != 0, Size: info.Size()}
	f, err := open(dir, info.Name(), info)
	if err != nil {
		return unread{fmt.Errorf("%q: %w", path, err)}
	}
	defer f.Close()
	if e.Root, e.Size, err = s.keep(s.ctx, e, f); err != nil {
		return fmt.Errorf("%q: %w", path, err)
	}
	after, err := f.Stat()
	if err != nil {
		return fmt.Errorf("%q: %w", path, err)
	}
	if e.Size != info.Size() || after.Size() != info.Size() || !after.ModTime().Equal(info.ModTime()) {
		return fmt.Errorf("%q %w", path, ErrChanged)
	}
	return s.each(e)
}

// Parts are what files are called until they are whole.
const partBegin, partEnd = ".covey-", ".part"

func partOf(name string) string {
	sum := piece.Sum([]byte(name))
	return fmt.Sprintf("%s%x%s", partBegin, sum[:8], partEnd)
}

func isPart(name string) bool {
	return len(name) == len(partBegin)+16+len(partEnd) && strings.HasPrefix(name, partBegin) && strings.HasSuffix(name, partEnd)
}
