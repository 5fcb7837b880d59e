package node

import (
	"os"

	"covey/dispatch/ledger"
	"covey/dispatch/worker"
	"covey/node/stager"
	"covey/taskstate"
)

// inputsFolder is where copies of inputs are that tasks share, in the data folder: on the disk of
// the tasks' folders.
const inputsFolder = "inputs"

// openStager makes what brings inputs to the tasks that run here.
func (n *Node) openStager() (err error) {
	others := holders{n.self, n.members, n.roster, n.view.Who}.others
	n.stager, err = stager.New(stager.Config{
		Store: n.blobs, Dir: n.folder.path(inputsFolder), Net: n.host, Self: n.self, Log: n.log,
		Members: func() (out []stager.Member) {
			for _, m := range others() {
				out = append(out, stager.Member(m))
			}
			return out
		},
		Tell:   func(r stager.Report) { n.worker.Staged(worker.StageReport(r)) },
		Over:   n.jobOver,
		Copies: os.Geteuid() <= 0, // the superuser may write to everything; on Windows a second name would not help
	})
	return err
}

// jobOver implements stager.Config.Over.
func (n *Node) jobOver(id taskstate.JobID) (over, known bool) {
	if !n.keeper.Level() {
		return false, true // nobody can tell
	}
	n.replica.Read(func(s *ledger.State) {
		var j *ledger.JobRecord
		if j, known = s.Job(id); known {
			_, over = j.Ended()
		}
	})
	return over, known
}
