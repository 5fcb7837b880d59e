package store

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"

	"github.com/coveyproject/covey/internal/long"
)

// killedDir tells the process that is killed where its store is, and killedSeed what it does first.
const (
	killedDir  = "COVEY_TEST_STORE"
	killedSeed = "COVEY_TEST_SEED"
)

// killedBlobs is what it works on. The first is fetched, the others are added.
func killedBlobs() []sample { return samples(24*mib+11, 300, 6*mib, 5000, mib) }

// TestBeKilled is that process: it says what it is about to do, and what it has done, on a line of
// its own each.
func TestBeKilled(t *testing.T) {
	dir := os.Getenv(killedDir)
	if dir == "" {
		t.Skip("it is started by another test")
	}
	var seed uint64
	if _, err := fmt.Sscan(os.Getenv(killedSeed), &seed); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, Config{Quota: 1 << 30, Leave: -1})
	if err != nil {
		t.Fatal(err)
	}
	all, r := killedBlobs(), rand.New(rand.NewPCG(seed, 0))
	f, err := s.Begin(t.Context(), all[0].blob, false)
	if err != nil {
		t.Fatal(err)
	}
	for {
		if k := r.IntN(3 * len(all)); k > 0 && k < len(all) {
			if err := beAdded(s, all[k], r.IntN(2) == 0); err != nil {
				t.Fatal(err)
			}
			fmt.Println("kept", k)
			continue
		}
		i := f.Pieces().Missing(r.IntN(all[0].blob.Pieces()))
		if i < 0 {
			i = f.Pieces().Missing(0)
		}
		if i < 0 {
			break
		}
		fmt.Println("asked", i)
		if err := f.Piece(i, all[0].piece(i)); err != nil {
			t.Fatal(err)
		}
		fmt.Println("piece", i)
	}
	if err := f.Done(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	fmt.Println("kept", 0)
}

func beAdded(s *Store, b sample, batch bool) error {
	if !batch {
		_, _, err := s.Add(context.Background(), bytes.NewReader(b.data), false)
		return err
	}
	many := s.Batch(false)
	defer many.Close()
	for range 2 {
		if _, _, err := many.Add(context.Background(), bytes.NewReader(b.data), -1); err != nil {
			return err
		}
	}
	return many.Done()
}

// A process that adds and fetches is killed over and over, wherever it is: what it said is kept is
// there, what is called whole is right, and for each kill at most one piece is fetched again.
func TestAProcessThatIsKilledLosesNothingItHasPromised(t *testing.T) {
	long.Test(t)
	dir, r := t.TempDir(), rand.New(rand.NewPCG(rand.Uint64(), 0))
	all := killedBlobs()
	kept, asked, kills := map[int]bool{}, 0, 0
	for round := 0; !kept[0]; round++ {
		if round == 200 {
			t.Fatal("it never comes to an end")
		}
		pieces, tries := beKilled(t, dir, uint64(round), 1+r.IntN(10), kept)
		asked, kills = asked+tries, kills+1
		s := openStore(t, dir, Config{Quota: 1 << 30})
		for k, b := range all {
			h := s.Have(b.root())
			if kept[k] && !h.Whole {
				t.Fatalf("round %d: %d was kept, and is gone", round, k)
			}
			if !h.Whole {
				continue
			}
			if err := reads(t, s, b); err != nil {
				t.Fatalf("round %d: %d is called whole: %v", round, k, err)
			}
		}
		f := fetch(t, s, all[0])
		have := f.Pieces()
		for i := range pieces {
			if !have.Has(i) {
				t.Fatalf("round %d: piece %d was stored, and is gone", round, i)
			}
		}
		f.Close()
	}
	if most := all[0].blob.Pieces() + kills; asked > most {
		t.Fatalf("%d pieces were asked for, in %d lives: that is more than one again for each", asked, kills)
	}
	t.Logf("%d lives, %d pieces asked for of %d", kills, asked, all[0].blob.Pieces())
}

// beKilled starts the process and kills it after so many lines. It returns which pieces it has
// stored, and how many it asked for.
func beKilled(t *testing.T, dir string, seed uint64, lines int, kept map[int]bool) (pieces map[int]bool, asked int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestBeKilled$", "-test.v")
	cmd.Env = append(os.Environ(), killedDir+"="+dir, fmt.Sprint(killedSeed, "=", seed))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pieces = map[int]bool{}
	last := ""
	for in := bufio.NewScanner(out); in.Scan(); {
		last = in.Text()
		var what string
		var n int
		if k, _ := fmt.Sscan(last, &what, &n); k < 2 {
			continue
		}
		switch what {
		case "asked":
			asked++
		case "piece":
			pieces[n] = true
		case "kept":
			kept[n] = true
		default:
			continue
		}
		if lines--; lines == 0 {
			_ = cmd.Process.Kill()
		}
	}
	if err := cmd.Wait(); err != nil && lines > 0 {
		t.Fatalf("it ended by itself: %v, %s", err, last)
	}
	return pieces, asked
}
