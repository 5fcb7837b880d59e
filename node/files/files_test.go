package files_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/node/blob"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/store"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/node/files"
	"github.com/coveyproject/covey/p2p/memnet"
)

// peer is one with a store and an API of its own.
type peer struct {
	*client.Client
	store *store.Store
	now   time.Time
	path  string // of its API
	dir   string // of its store
	tasks []api.Task
}

// others is what is not about files.
type others struct {
	api.Backend
	p *peer
}

func (o others) Tasks(context.Context, string) (api.Tasks, error) {
	return api.Tasks{Tasks: o.p.tasks, AsOf: o.p.now}, nil
}

// cluster makes peers that know each other, and those that are away.
func cluster(t *testing.T, here []string, away ...string) map[string]*peer {
	t.Helper()
	network, all := memnet.New(), map[string]*peer{}
	t.Cleanup(func() { _ = network.Close() })
	for _, name := range here {
		p := &peer{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), dir: filepath.Join(t.TempDir(), "blobs")}
		s, err := store.Open(p.dir, store.Config{Quota: 1 << 30, Leave: -1})
		if err != nil {
			t.Fatal(err)
		}
		p.store = s
		host := network.Host(name)
		srv := blob.Serve(host, blob.Shelved(s), blob.ServerConfig{})
		f := files.New(files.Config{
			Store: s, Dir: "there", Net: host, Self: name, Now: func() time.Time { return p.now },
			Members: func() (all []files.Member) {
				for i, x := range slices.Concat(here, away) {
					if x != name {
						all = append(all, files.Member{ID: x, Name: x, Here: i < len(here)})
					}
				}
				return all
			},
		})
		path := filepath.Join(t.TempDir(), "s")
		l, err := api.Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		h := &http.Server{Handler: api.NewHandler(struct {
			*files.Files
			others
		}{f, others{p: p}}, nil)}
		ended := make(chan struct{})
		go func() { defer close(ended); _ = h.Serve(l) }() // ends with Close
		p.Client, p.path = client.New(path), path
		t.Cleanup(func() { p.Client.Close(); h.Close(); <-ended; srv.Close() })
		all[name] = p
	}
	return all
}

// folder is a tree of files with these contents, in the order of their names.
func folder(t *testing.T, contents map[string][]byte, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tree.NewWriter(&b)
	for _, name := range names {
		if err := w.Add(tree.Entry{Path: name, Kind: tree.File, Size: int64(len(contents[name])), Root: piece.Sum(contents[name])}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// put sends blobs, and says that they were this.
func (p *peer) put(t *testing.T, ref tree.Ref, name string, long time.Duration, blobs ...[]byte) (api.Put, error) {
	t.Helper()
	return p.PutFiles(t.Context(), func(w *api.PutWriter) error {
		for _, b := range blobs {
			if err := w.Blob(api.PutBlob{Blob: piece.Sum(b), Size: int64(len(b))}, bytes.NewReader(b)); err != nil {
				return err
			}
		}
		return w.End(api.PutEnd{Ref: ref, Name: name, For: long.Seconds()})
	})
}

func fileRef(b []byte) tree.Ref { return tree.Ref{Root: piece.Sum(b)} }

func codeOf(err error) api.Code {
	if err == nil {
		return ""
	}
	return api.AsError(err).Code
}

func TestAFolderIsKeptOnlyWithAllThatItsTreeNames(t *testing.T) {
	p := cluster(t, []string{"a"})["a"]
	contents := map[string][]byte{"one": []byte("1"), "two": bytes.Repeat([]byte("2"), 3*piece.Size)}
	list := folder(t, contents, "one", "two")
	ref := tree.Ref{Root: piece.Sum(list), Dir: true}
	for what, blobs := range map[string][][]byte{
		"one is missing":      {contents["two"], list},
		"the tree is missing": {contents["one"], contents["two"]},
	} {
		if _, err := p.put(t, ref, "x", 0, blobs...); codeOf(err) != api.Usage {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := p.put(t, tree.Ref{Root: piece.Sum([]byte("no tree")), Dir: true}, "x", 0, []byte("no tree")); codeOf(err) != api.Usage {
		t.Errorf("what is no tree: %v", err)
	}
	if pins := p.store.Pins(); len(pins) > 0 {
		t.Errorf("%+v are kept", pins)
	}
	v, err := p.put(t, ref, "x", 0, contents["one"], contents["two"], list)
	if err != nil || v.Files != 2 || v.Bytes != 3*piece.Size+1 || v.Until != nil {
		t.Fatalf("%+v, %v", v, err)
	}
	u, err := p.StoreUsage(t.Context())
	if err != nil || len(u.Puts) != 1 || u.Puts[0].Ref != ref || u.Puts[0].Name != "x" || u.Puts[0].Files != 2 || u.Puts[0].Bytes != v.Bytes {
		t.Errorf("%+v, %v", u, err)
	}
}

func TestWhatIsSaidToBeHereAndIsNotIsCountedAndNothingIsKept(t *testing.T) {
	p := cluster(t, []string{"a"})["a"]
	b := []byte("b")
	v, err := p.PutFiles(t.Context(), func(w *api.PutWriter) error {
		if err := w.Blob(api.PutBlob{Blob: piece.Sum(b), Size: 1}, nil); err != nil {
			return err
		}
		return w.End(api.PutEnd{Ref: fileRef(b)})
	})
	if err != nil || v.Missing != 1 || len(p.store.Pins()) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
	if here, err := p.HaveBlobs(t.Context(), api.Blobs{Blobs: []piece.Root{piece.Sum(b)}}); err != nil || len(here.Blobs) != 0 {
		t.Errorf("%v, %v", here, err)
	}
	if _, err := p.HaveBlobs(t.Context(), api.Blobs{Blobs: make([]piece.Root, api.MaxBlobs+1)}); codeOf(err) != api.Usage {
		t.Error(err)
	}
}

// What a client is told is here it does not send, and may be the only one to have.
func TestWhatRottedOrWasRemovedIsNotSaidToBeHere(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"removed": os.Remove,
		"cut":     func(path string) error { return errors.Join(os.Chmod(path, 0o600), os.Truncate(path, 1<<20)) },
		"rotten": func(path string) error {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte{1}, 2<<20)
			return errors.Join(err, f.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := cluster(t, []string{"a"})["a"]
			b := make([]byte, 3<<20)
			if _, err := p.put(t, fileRef(b), "big", 0, b); err != nil {
				t.Fatal(err)
			}
			ask := api.Blobs{Blobs: []piece.Root{piece.Sum(b)}}
			if here, err := p.HaveBlobs(t.Context(), ask); err != nil || len(here.Blobs) != 1 {
				t.Fatalf("%v, %v", here, err)
			}
			hex := strings.TrimPrefix(piece.Sum(b).String(), "b3:")
			path := filepath.Join(p.dir, hex[:2], hex)
			if err := errors.Join(os.Chmod(path, 0o600), damage(path)); err != nil {
				t.Fatal(err)
			}
			if here, err := p.HaveBlobs(t.Context(), ask); err != nil || len(here.Blobs) != 0 {
				t.Errorf("it is said to be here: %v, %v", here, err)
			}
			if v, err := p.put(t, fileRef(b), "big", 0, b); err != nil || v.New != int64(len(b)) {
				t.Errorf("put again: %+v, %v", v, err)
			}
			if here, err := p.HaveBlobs(t.Context(), ask); err != nil || len(here.Blobs) != 1 {
				t.Errorf("after it was put again: %v, %v", here, err)
			}
		})
	}
}

func TestPuttingAgainNeverShortensHowLongItIsKept(t *testing.T) {
	p := cluster(t, []string{"a"})["a"]
	b := []byte("b")
	for _, x := range []struct{ said, kept time.Duration }{{time.Hour, time.Hour}, {time.Minute, time.Hour}, {2 * time.Hour, 2 * time.Hour}, {0, 0}, {time.Hour, 0}} {
		v, err := p.put(t, fileRef(b), "b", x.said, b)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case x.kept == 0 && v.Until != nil, x.kept > 0 && (v.Until == nil || !v.Until.Equal(p.now.Add(x.kept))):
			t.Errorf("after %v it is kept until %v, want %v", x.said, v.Until, x.kept)
		}
	}
}

func TestWhatWasPutIsLetGoByItsNameItsBeginningOrWhatItWasCalled(t *testing.T) {
	p := cluster(t, []string{"a"})["a"]
	for _, b := range []string{"1", "2", "3"} {
		if _, err := p.put(t, fileRef([]byte(b)), "same", 0, []byte(b)); err != nil {
			t.Fatal(err)
		}
	}
	unput := func(word string, want api.Code) {
		t.Helper()
		if _, err := p.Unput(t.Context(), word); codeOf(err) != want {
			t.Errorf("%q: %v", word, err)
		}
	}
	unput("", api.NotFound)
	unput("b3:", api.NotFound)
	unput("other", api.NotFound)
	unput("same", api.Conflict)
	unput(fileRef([]byte("1")).String(), "")
	unput(fileRef([]byte("1")).String(), api.NotFound)
	unput(fileRef([]byte("2")).String()[:12], "")
	unput("same", "")
	if left := p.store.Pins(); len(left) > 0 {
		t.Errorf("%+v are left", left)
	}
}

// get reads all blobs that come.
func (p *peer) get(t *testing.T, q api.GetFiles) (all [][]byte, err error) {
	t.Helper()
	r, err := p.GetFiles(t.Context(), q)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		_, size, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		b, err := io.ReadAll(r)
		if err != nil {
			return all, err
		}
		if int64(len(b)) != size {
			t.Errorf("%d bytes came of %d", len(b), size)
		}
		all = append(all, b)
	}
}

func TestAFolderComesFromAnotherPeerInItsOrderButForWhatIsThere(t *testing.T) {
	ps := cluster(t, []string{"a", "b"})
	contents := map[string][]byte{"a": []byte("1"), "b": bytes.Repeat([]byte("2"), 3*piece.Size+5), "c": {}, "d": []byte("1"), "e": []byte("3")}
	list := folder(t, contents, "a", "b", "c", "d", "e")
	ref := tree.Ref{Root: piece.Sum(list), Dir: true}
	if _, err := ps["a"].put(t, ref, "x", 0, contents["a"], contents["b"], contents["c"], contents["e"], list); err != nil {
		t.Fatal(err)
	}
	if got, err := ps["b"].get(t, api.GetFiles{Root: ref.Root}); err != nil || len(got) != 1 || !bytes.Equal(got[0], list) {
		t.Fatal(len(got), err)
	}
	got, err := ps["b"].get(t, api.GetFiles{Root: ref.Root, Files: true, Skip: []byte{0b1}})
	if err != nil || len(got) != 3 || !bytes.Equal(got[0], contents["b"]) || string(got[1]) != "1" || string(got[2]) != "3" {
		t.Fatal(len(got), err)
	}
}

func TestWhatIsOnlyToBeBroughtIsHereAndNotInTheAnswer(t *testing.T) {
	ps := cluster(t, []string{"a", "b"})
	contents := map[string][]byte{"a": []byte("1"), "b": bytes.Repeat([]byte("2"), 3*piece.Size+5)}
	list := folder(t, contents, "a", "b")
	ref := tree.Ref{Root: piece.Sum(list), Dir: true}
	if _, err := ps["a"].put(t, ref, "x", 0, contents["a"], contents["b"], list); err != nil {
		t.Fatal(err)
	}
	whole := func(b []byte) bool { return ps["b"].store.Have(piece.Sum(b)).Whole }
	if got, err := ps["b"].get(t, api.GetFiles{Root: piece.Sum(contents["b"]), Stay: true}); err != nil || len(got) != 0 || !whole(contents["b"]) || whole(list) {
		t.Fatal(len(got), err)
	}
	if got, err := ps["b"].get(t, api.GetFiles{Root: ref.Root, Files: true, Stay: true}); err != nil || len(got) != 0 || !whole(list) || !whole(contents["a"]) {
		t.Fatal(len(got), err)
	}
	if _, err := ps["a"].put(t, fileRef([]byte("last")), "x", 0, []byte("last")); err != nil {
		t.Fatal(err)
	}
	if got, err := ps["b"].get(t, api.GetFiles{Blobs: []api.SizedBlob{{Blob: piece.Sum([]byte("last")), Size: 4}}, Stay: true}); err != nil || len(got) != 0 || !whole([]byte("last")) {
		t.Fatal(len(got), err)
	}
	for _, q := range []api.GetFiles{{Root: piece.Sum([]byte("nowhere")), Stay: true}, {Root: piece.Sum([]byte("nowhere")), Files: true, Stay: true}} {
		if _, err := ps["b"].get(t, q); codeOf(err) != api.NoCoordinator {
			t.Error(err)
		}
	}
}

func TestWhoWasAskedAndWhoIsAwayIsSaidOfWhatNobodyHas(t *testing.T) {
	ps := cluster(t, []string{"a", "b"}, "c")
	_, err := ps["a"].get(t, api.GetFiles{Root: piece.Sum([]byte("nowhere"))})
	if e := api.AsError(err); codeOf(err) != api.NoCoordinator || !strings.Contains(e.Message, "asked: b") || !strings.Contains(e.Message, "away, and may have it: c") {
		t.Error(err)
	}
}

func TestManyBlobsComeInTheOrderInWhichTheyWereAskedForAsOftenAsTheyWere(t *testing.T) {
	ps := cluster(t, []string{"a", "b"})
	large := bytes.Repeat([]byte("2"), 2*piece.Size+5)
	for _, b := range [][]byte{[]byte("1"), large, []byte("3")} {
		if _, err := ps["a"].put(t, fileRef(b), "x", 0, b); err != nil {
			t.Fatal(err)
		}
	}
	sized := func(blobs ...[]byte) (q api.GetFiles) {
		for i, b := range blobs {
			size := int64(len(b))
			if i%2 == 1 {
				size = -1 // not known
			}
			q.Blobs = append(q.Blobs, api.SizedBlob{Blob: piece.Sum(b), Size: size})
		}
		return q
	}
	for range 2 { // from another peer, and from here
		got, err := ps["b"].get(t, sized([]byte("3"), large, []byte("1"), []byte("3"), large))
		if err != nil || len(got) != 5 || string(got[0]) != "3" || !bytes.Equal(got[1], large) || string(got[2]) != "1" || string(got[3]) != "3" || !bytes.Equal(got[4], large) {
			t.Fatal(len(got), err)
		}
	}
	got, err := ps["b"].get(t, sized([]byte("1"), []byte("nowhere"), []byte("3")))
	if codeOf(err) != api.NoCoordinator || len(got) != 1 {
		t.Error(len(got), err)
	}
	if _, err := ps["b"].get(t, api.GetFiles{Blobs: make([]api.SizedBlob, api.MaxBlobs+1)}); codeOf(err) != api.Usage {
		t.Error(err)
	}
}

func TestWhatTheTasksOfAJobLeftIsListed(t *testing.T) {
	ps := cluster(t, []string{"a", "b"})
	a, b := ps["a"], ps["b"]
	get := func(query string) (v api.KeptFiles, code api.Code) {
		t.Helper()
		c := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", b.path)
		}}}
		defer c.CloseIdleConnections()
		r, err := c.Get("http://peer/v1/jobs/j/files" + query)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		var no struct{ Error api.Error }
		if err := errors.Join(json.Unmarshal(body, &v), json.Unmarshal(body, &no)); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		return v, no.Error.Code
	}
	if v, code := get(""); code != "" || v.Files == nil || len(v.Files) != 0 || !v.AsOf.Equal(b.now) {
		t.Errorf("of nothing: %+v, %s", v, code)
	}
	contents := map[string][]byte{"x": []byte("1"), "y": []byte("22")}
	list := folder(t, contents, "x", "y")
	ref := tree.Ref{Root: piece.Sum(list), Dir: true}
	if _, err := a.put(t, ref, "x", 0, contents["x"], contents["y"], list); err != nil {
		t.Fatal(err)
	}
	out := func(slot int, partial bool) api.Task {
		return api.Task{Slot: slot, Output: &api.Output{Ref: &ref, Partial: partial}}
	}
	b.tasks = []api.Task{out(1, false), {Slot: 2}, {Slot: 3, Output: &api.Output{}}, out(4, true), out(5, false)}
	file := func(slot int, name string) api.KeptFile {
		return api.KeptFile{Slot: slot, Path: name, Kind: "file", Mode: "0644", Size: int64(len(contents[name])), Ref: new(fileRef(contents[name]))}
	}
	for query, want := range map[string][]int{"": {1, 5}, "?partial=1": {1, 4, 5}, "?slot=5": {5}, "?slot=4": {}, "?slot=4&partial=1": {4}} {
		all := []api.KeptFile{}
		for _, slot := range want {
			all = append(all, file(slot, "x"), file(slot, "y"))
		}
		if v, code := get(query); code != "" || !reflect.DeepEqual(v.Files, all) {
			t.Errorf("%q: %+v, %s", query, v, code)
		}
	}
	if v, code := get("?slot=x"); code != api.Usage {
		t.Errorf("%+v, %s", v, code)
	}
	gone := tree.Ref{Root: piece.Sum([]byte("gone")), Dir: true}
	b.tasks = append(b.tasks, api.Task{Slot: 6, Output: &api.Output{Ref: &gone}})
	if v, code := get(""); code != api.NoCoordinator || v.Files != nil {
		t.Errorf("with a list that nobody has: %+v, %s", v, code)
	}
}
