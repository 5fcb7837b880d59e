package coordinator

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator/clock"
	"github.com/coveyproject/covey/placement"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/constraint"
)

// Whys is an answer in one frame: it tells of the newest so many jobs, and of each no more than so
// many bytes.
const (
	maxWhys = 500
	maxWhy  = 500
)

// explainer tells people why something waits. It changes nothing.
type explainer struct {
	clock    *clock.Clock
	peers    *peers
	jobs     *jobs
	placer   *placer
	replacer *replacer
}

const aboutToStart = "it is about to be assigned"

func (ex *explainer) whys() map[taskstate.JobID]string {
	out := map[taskstate.JobID]string{}
	jobs := ex.jobs.some(func(j *jobState) bool { return j.pending() > 0 || j.live > 0 || j.open > 0 })
	for _, j := range slices.Backward(jobs) {
		if len(out) == maxWhys {
			break
		}
		if why := ex.waiting(j.id); why != "" && why != aboutToStart {
			out[j.id] = taskstate.ClipText(why, maxWhy)
		}
	}
	return out
}

// sentence says for a person why tasks of a group are not placed. Peers are named by their ids: who
// shows it puts names in their place.
func (ex *explainer) sentence(l *pendingGroup, plan placement.Plan) string {
	w := why{tasks: l.job.pending(), of: l.job.job.Count, need: ex.placer.need(l, 1)}
	if said := w.say(ex.placer.described); said != "" {
		return said
	}
	return plan.Reason
}

// why words the usual reasons for which tasks wait; there are so many others that the filters' own
// words have to do for them. It is pure.
type why struct {
	tasks, of int // so many wait, of so many that the job has
	need      placement.Need
}

// measured is something that a task needs so much of.
type measured struct {
	need   int64
	of     func(taskstate.Resources) int64
	words  func(n int64) string // "2 cpus"
	amount func(n int64) string // "2"
	busy   string               // "all 6 cpus are busy": what comes behind the number
}

func (w *why) measures() (out []measured) {
	r := w.need.Resources
	if r.MilliCPU > 0 {
		out = append(out, measured{r.MilliCPU, func(r taskstate.Resources) int64 { return r.MilliCPU }, cpusText, cpuNumber, "are busy"})
	}
	if r.Memory > 0 {
		out = append(out, measured{
			r.Memory, func(r taskstate.Resources) int64 { return r.Memory },
			func(n int64) string { return sizeText(n) + " of memory" }, sizeText, "is promised",
		})
	}
	if r.Disk > 0 {
		out = append(out, measured{
			r.Disk, func(r taskstate.Resources) int64 { return r.Disk },
			func(n int64) string { return sizeText(n) + " of disk" }, sizeText, "is promised",
		})
	}
	for name, n := range r.Others.Map() {
		out = append(out, measured{
			n, func(r taskstate.Resources) int64 { return r.Others.Of(name) },
			func(n int64) string { return fmt.Sprintf("%d %s", n, name) }, func(n int64) string { return strconv.FormatInt(n, 10) }, "are busy",
		})
	}
	slices.SortStableFunc(out, func(a, b measured) int { return cmp.Compare(a.words(0), b.words(0)) })
	return out
}

// say is the sentence, "" if another one fits better.
func (w *why) say(peers []placement.Peer) string {
	var here, fit []placement.Peer
	for _, p := range peers {
		if !p.Ready || !p.Available || w.need.Only != "" && p.ID != w.need.Only {
			continue
		}
		here = append(here, p)
		if w.need.Resources.Fits(p.Offer) && p.Facts != nil && constraint.AllHold(w.need.Constraints, p.Facts) && p.Barred == "" {
			fit = append(fit, p)
		}
	}
	switch {
	case len(here) == 0:
		return ""
	case len(fit) == 0:
		return w.tooMuch(here, peers)
	}
	said := w.taken(fit, len(fit) == len(here))
	if away := len(slices.DeleteFunc(slices.Clone(peers), func(p placement.Peer) bool { return p.Ready })); away > 0 && said != "" {
		said += fmt.Sprintf("; %s not here", peersAre(away))
	}
	return said
}

func peersAre(n int) string {
	if n == 1 {
		return "1 peer is"
	}
	return fmt.Sprintf("%d peers are", n)
}

// tooMuch says that nobody here has enough of something.
func (w *why) tooMuch(here, peers []placement.Peer) string {
	for _, m := range w.measures() {
		largest := slices.MaxFunc(here, func(a, b placement.Peer) int { return cmp.Compare(m.of(a.Offer), m.of(b.Offer)) })
		if has := m.of(largest.Offer); has < m.need {
			for _, p := range peers {
				if m.of(p.Offer) >= m.need { // and so it is not here
					return fmt.Sprintf("needs %s; %s offers them and %s", m.words(m.need), p.ID, whyNot(p))
				}
			}
			if has <= 0 {
				return fmt.Sprintf("needs %s; no peer here offers any", m.words(m.need))
			}
			if len(here) == 1 {
				return fmt.Sprintf("needs %s; the only peer here, %s, offers %s", m.words(m.need), largest.ID, m.amount(has))
			}
			return fmt.Sprintf("needs %s; the largest peer, %s, offers %s", m.words(m.need), largest.ID, m.amount(has))
		}
	}
	return ""
}

// whyNot says why a peer gets no tasks.
func whyNot(p placement.Peer) string {
	if !p.Ready {
		return "is not here"
	}
	return "takes no new tasks now"
}

// taken says that what would do is in use.
func (w *why) taken(fit []placement.Peer, all bool) string {
	wait := ""
	if w.of > 1 {
		wait = tasksWait(w.tasks) + ": "
	}
	if m := w.need.MaxPerPeer; m > 0 && !slices.ContainsFunc(fit, func(p placement.Peer) bool { return p.OfJob < m }) {
		return fmt.Sprintf("%sat most %d of the job may be on one peer (max_per_peer)", wait, m)
	}
	for _, m := range w.measures() {
		var free, sum int64
		for _, p := range fit {
			free, sum = max(free, m.of(p.Free)), sum+m.of(p.Offer)
		}
		if free >= m.need {
			continue
		}
		whose := ""
		if !all {
			whose = " of the peers that would do"
		}
		if free <= 0 {
			return fmt.Sprintf("%sall %s%s %s", wait, m.words(sum), whose, m.busy)
		}
		return fmt.Sprintf("%sneeds %s, and no peer that would do has more than %s free", wait, m.words(m.need), m.amount(free))
	}
	return ""
}

func tasksWait(n int) string {
	if n == 1 {
		return "1 task waits"
	}
	return fmt.Sprintf("%d tasks wait", n)
}

func cpuNumber(milli int64) string { return strconv.FormatFloat(float64(milli)/1000, 'f', -1, 64) }

func cpusText(milli int64) string {
	if milli == 1000 {
		return "1 cpu"
	}
	return cpuNumber(milli) + " cpus"
}

// sizeText is a number of bytes in the largest unit that leaves at least one, to a tenth.
func sizeText(n int64) string {
	v, unit := float64(n), 0
	for v >= 1024 && unit < 4 {
		v, unit = v/1024, unit+1
	}
	return strconv.FormatFloat(float64(int64(v*10))/10, 'f', -1, 64) + [...]string{"B", "KiB", "MiB", "GiB", "TiB"}[unit]
}

// inLine says that a peer has not begun with tasks of a job because others there are not done.
func (ex *explainer) inLine(h *holding, p *peerState) string {
	n, begun := 0, 0
	var need taskstate.Resources
	for _, r := range h.slots {
		switch {
		case r.is(ended | saving):
		case r.state >= taskstate.Starting || r.state == taskstate.Preparing:
			begun++
		default:
			n++
			need = h.job.body(int(r.version)).Resources
		}
	}
	if n == 0 {
		return ""
	}
	said := "in line"
	if begun > 0 {
		said = tasksWait(n) + ": in line"
	}
	free := p.offer.Resources.Sub(p.running())
	w := why{need: placement.Need{Resources: need}}
	for _, m := range w.measures() {
		if m.of(free) < m.need {
			return fmt.Sprintf("%s on %s, where %s of %s %s", said, p.id, m.amount(m.of(p.running())), m.words(m.of(p.offer.Resources)), m.busy) + ex.hint(h.job)
		}
	}
	return ""
}

func (ex *explainer) waited(id taskstate.JobID) []WaitPeriod {
	j := ex.jobs.of(id)
	if j == nil {
		return slices.Clone(ex.jobs.past.of[id])
	}
	out := slices.Clone(j.waited)
	if n := len(out); n > 0 {
		out[n-1].Lasts = j.waiting
	}
	return out
}

// crowdedAfter is how long the first task of an update that starts new tasks first may wait before
// the reason says what to do.
const crowdedAfter = time.Minute

// CrowdedHint is what a user can do about an update that starts new tasks first where no peer has
// room for one beside those that run.
const CrowdedHint = "the update starts a new task before it stops an old one (update: order: start-first): make room for one, add a peer, or submit the job with order: stop-first"

// hint is what to add to the reason why a task of j finds no room.
func (ex *explainer) hint(j *jobState) string {
	if j.lasting == nil || j.lasting.crowded.IsZero() || ex.clock.Now().Sub(j.lasting.crowded) < crowdedAfter {
		return ""
	}
	return "; " + CrowdedHint
}

func (ex *explainer) waiting(id taskstate.JobID) string {
	j := ex.jobs.of(id)
	if j == nil || j.pending() == 0 {
		return ex.waitingForPeers(j)
	}
	if why := ex.jobs.waitsFor(j); why != "" {
		return why
	}
	if j.delayed {
		return "delay: the next of its tasks starts " + (time.Duration(j.job.Delay) * time.Millisecond).String() + " after the one before"
	}
	if j.mayStart() == 0 {
		return "parallel: as many of its tasks run as may run at once"
	}
	ex.placer.fillPeers()
	for _, l := range j.groups {
		if n := l.mayStart(); n > 0 {
			if why := ex.placer.expired(l); why != "" {
				return why
			}
			if plan := ex.placer.place(l, n); plan.Reason != "" {
				said := ex.sentence(l, plan)
				if ex.placer.crowds(j, l) {
					said += ex.hint(j)
				}
				return said
			}
		}
	}
	return aboutToStart
}

// waitingForPeers says which of a job's tasks hang on peers that do not answer.
func (ex *explainer) waitingForPeers(j *jobState) string {
	if j == nil {
		return ""
	}
	for _, p := range ex.peers.list() {
		h := p.holds[j.id]
		if h == nil || len(h.slots) == 0 {
			continue
		}
		if p.standing == Ready {
			if said := cmp.Or(ex.stalledTasks(h, p), ex.inLine(h, p)); said != "" {
				return said
			}
			continue
		}
		tasks := fmt.Sprintf("tasks on peer %s, which is %s: %d", p.id, p.standing, len(h.slots))
		switch due, ever := ex.replacer.replaceAt(p, j); {
		case ex.peers.frozen().Active() && ever && p.standing == Unreachable:
			return tasks + "; replacement is frozen: " + ex.peers.frozen().String() + " (peer thaw)"
		case p.standing != Unreachable:
			return tasks
		case !ever:
			return tasks + "; they must not run twice and wait for it (unreachable.wait)"
		default:
			said := fmt.Sprintf("%s; they go elsewhere in %s", tasks, max(0, later(due, ex.peers.held(p)).Sub(ex.clock.Now()).Round(100*time.Millisecond)))
			if ex.peers.returning() {
				said += ", for other peers are just coming back"
			}
			return said
		}
	}
	return ""
}

// stalledTasks says which of a job's tasks wait for the word of a peer that does not start them.
func (ex *explainer) stalledTasks(h *holding, p *peerState) string {
	n := 0
	for _, r := range h.slots {
		if r.state < taskstate.Starting && r.state != taskstate.Preparing {
			n++
		}
	}
	if !ex.peers.shunned(p) || n == 0 || !h.job.job.Unreachable.Wait {
		return ""
	}
	return fmt.Sprintf("tasks on peer %s, which has room and does not start them: %d; they must not run twice and wait for it, or for you (peer cancel, peer remove)", p.id, n)
}

// waitsFor says what a job's slots wait for besides room; "" if nothing.
func (js *jobs) waitsFor(j *jobState) string {
	if j.blocked {
		var names []string
		for _, id := range j.job.After {
			if b := js.of(id); b != nil {
				names = append(names, strings.TrimSpace(b.job.Name+" "+string(id)))
			}
		}
		return "after: " + strings.Join(names, ", ") + " must be complete first"
	}
	if n := len(j.later); n > 0 && n == j.pending() {
		return fmt.Sprintf("restart: the next attempt starts in %s", max(0, js.clock.When(j.later[0].at).Sub(js.clock.Now())).Round(100*time.Millisecond))
	}
	return ""
}
