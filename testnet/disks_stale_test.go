//go:build unix

package testnet_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/node/api"
)

// staleScenes: the folder of a voter, or a part of it, is put back to an old copy while the only
// voter that has what was decided since is away. Forty rounds of them:
//
//	go test ./testnet -run TestDamagedDisks -rounds 40 -disk-scene 'put back' -timeout 1h
func staleScenes() []diskScene {
	return []diskScene{
		{"a voter's whole folder is put back, and the witness is away", func(d *diskRound) { d.putBack(d.turnFolder, false) }},
		{"a voter's ledger and mark are put back, and the witness is away", func(d *diskRound) { d.putBack(d.turnLedger, false) }},
		{"a voter's whole folder is put back, and the third left at its copy", func(d *diskRound) { d.putBack(d.turnFolder, true) }},
		{"a voter's ledger and mark are put back, and the third left at its copy", func(d *diskRound) { d.putBack(d.turnLedger, true) }},
		{"the files of a voter are put back in place, and the witness is away", (*diskRound).putBackInPlace},
	}
}

// putBack plays the loss: back and witness decide while away is away, and back's copy from before
// is put back. With late, away leaves within two seconds of the copy.
func (d *diskRound) putBack(keep func(k int) (turn func()), late bool) {
	d.t.Helper()
	order := d.r.Perm(3)
	away, back, witness := order[0]+1, order[1]+1, order[2]+1
	if !late {
		d.kill(away)
	}
	d.await("a coordinator", func() string { return noCoordinator(d.t.Context(), d.net.Client(witness)) })
	d.kill(back)
	turn := keep(back)
	d.start(back)
	if late {
		_ = pause.For(d.t.Context(), time.Duration(d.r.Int64N(int64(2*time.Second))))
		d.kill(away)
	}
	for range 3 {
		d.submit(witness)
	}
	d.kill(back, witness)
	turn()
	d.hurt[back] = "put back"
	d.start(away, back)
	if d.leaderLacksNothing(15 * time.Second) {
		d.t.Error("a voter leads while the only one that has what was decided is away")
	}
	d.start(witness)
	d.keepsAll()
	d.submit(back)
}

// putBackInPlace plays the loss that no folder notices: back's files get their old content, and
// with away it decides without what the witness knows. One command at the witness brings that back.
func (d *diskRound) putBackInPlace() {
	d.t.Helper()
	order := d.r.Perm(3)
	away, back, witness := order[0]+1, order[1]+1, order[2]+1
	d.kill(away)
	d.await("a coordinator", func() string { return noCoordinator(d.t.Context(), d.net.Client(witness)) })
	d.kill(back)
	data, old := d.net.Data(back), filepath.Join(d.t.TempDir(), "data")
	if err := copyFolder(old, data); err != nil {
		d.t.Fatal(err)
	}
	d.start(back)
	for range 3 {
		d.submit(witness)
	}
	d.kill(back, witness)
	if err := copyFolder(data, old); err != nil { // in place: os.WriteFile keeps the file
		d.t.Fatal(err)
	}
	d.hurt[back] = "put back in place"
	d.start(away, back)
	for range d.r.IntN(6) {
		d.submit(back)
	}
	d.start(witness)
	d.await("the witness's jobs are back after `peer recover` there", func() string {
		missing := noCoordinator(d.t.Context(), d.net.Client(witness))
		if missing == "" {
			missing = d.lacks(witness)
		}
		if missing == "" {
			return ""
		}
		plan, err := d.net.Client(witness).PlanRecover(d.t.Context())
		if err != nil {
			return missing + ": " + err.Error()
		}
		r := api.Recover{Generation: plan.From.Generation, Term: plan.From.Term, Index: plan.From.Index}
		for _, j := range plan.Jobs {
			r.Jobs = append(r.Jobs, j.ID)
		}
		_, err = d.net.Client(witness).Recover(d.t.Context(), r)
		return fmt.Sprintf("%s: recovered %+v: %v", missing, r, err)
	})
}

// turnFolder copies the whole folder of a peer that is stopped; turn puts the copy in its place.
func (d *diskRound) turnFolder(k int) (turn func()) {
	d.t.Helper()
	data, old := d.net.Data(k), filepath.Join(d.t.TempDir(), "data")
	if err := copyFolder(old, data); err != nil {
		d.t.Fatal(err)
	}
	return func() {
		if err := errors.Join(os.RemoveAll(data), copyFolder(data, old)); err != nil {
			d.t.Fatal(err)
		}
	}
}

// turnLedger is turnFolder for what only the ledger keeps in it.
func (d *diskRound) turnLedger(k int) (turn func()) {
	d.t.Helper()
	data, old := d.net.Data(k), d.t.TempDir()
	ledger, mark := filepath.Join(data, "ledger"), filepath.Join(data, "voter.mark")
	keep, err := os.ReadFile(mark)
	if err = errors.Join(err, copyFolder(filepath.Join(old, "ledger"), ledger)); err != nil {
		d.t.Fatal(err)
	}
	return func() {
		err := errors.Join(os.RemoveAll(ledger), copyFolder(ledger, filepath.Join(old, "ledger")), os.WriteFile(mark, keep, 0o600))
		if err != nil {
			d.t.Fatal(err)
		}
	}
}
