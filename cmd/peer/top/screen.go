package top

import (
	"fmt"
	"strings"
	"time"

	"github.com/coveyproject/covey/node/api"
)

const (
	minWidth, minHeight = 40, 8
	storyLines          = 4
)

// Lines is the screen: Height lines of at most Width columns.
func (m *Model) Lines() []string {
	if m.Width < minWidth || m.Height < minHeight {
		return m.fill([]string{"too small"}, nil)
	}
	foot := []string{m.footer()}
	switch {
	case m.at.IsZero() && m.wrong != "":
		return m.fill([]string{m.paint(trouble, " "+m.wrong)}, foot)
	case m.at.IsZero():
		return m.fill([]string{" asking the peer …"}, foot)
	}
	head := []string{m.header()}
	room := m.Height - 2
	switch m.page {
	case jobPage:
		return m.fill(append(head, m.jobLines(room)...), foot)
	case peerPage:
		return m.fill(append(head, m.peerLines()...), foot)
	case logPage:
		return m.fill(append(head, m.logLines(room)...), foot)
	case helpPage:
		return m.fill(append(head, help...), foot)
	}
	return m.fill(append(head, m.overview(room)...), foot)
}

// fill brings lines to the size of the screen, with some at its bottom.
func (m *Model) fill(lines, foot []string) []string {
	out := make([]string, 0, max(0, m.Height))
	room := max(0, m.Height-len(foot))
	for i := range room {
		text := ""
		if i < len(lines) {
			text = lines[i]
		}
		out = append(out, strings.TrimRight(cell(text, max(0, m.Width)), " "))
	}
	for _, f := range foot {
		out = append(out, strings.TrimRight(cell(f, max(0, m.Width)), " "))
	}
	return out[:max(0, m.Height)]
}

func (m *Model) header() string {
	lead, away := "nobody coordinates", 0
	for i := range m.peers.Peers {
		p := &m.peers.Peers[i]
		if p.Coordinator {
			lead = "★ " + clean(p.Name)
		}
		if p.Standing == "unreachable" {
			away++
		}
	}
	how := m.paint(good, "all well")
	switch {
	case m.wrong != "":
		how = m.paint(trouble, "no answer: "+m.wrong)
	case m.peers.Coordinator == "":
		how = m.paint(trouble, clean(m.peers.WaitingFor))
	case m.peers.Frozen:
		how = m.paint(trouble, "replacement is frozen")
	case away > 0:
		how = m.paint(trouble, fmt.Sprintf("%d cannot be reached", away))
	}
	left := " " + m.paint(bold, "covey") + "  " + many(len(m.peers.Peers), "peer") + " · " + lead + " · " + how
	right := "as " + clean(m.Self) + " knows it " + m.at.Format("15:04:05")
	return m.sides(left, m.paint(dim, right))
}

// sides puts texts at both ends of a line; the right one only where there is room.
func (m *Model) sides(left, right string) string {
	gap := m.Width - width(left) - width(right) - 1
	if gap < 1 {
		return left
	}
	return left + strings.Repeat(" ", gap) + right
}

// overview shares the room: what happened has four lines, peers up to half of the rest.
func (m *Model) overview(room int) []string {
	rows := m.rows()
	var peers, jobs []row
	for _, r := range rows {
		if r.peer != nil {
			peers = append(peers, r)
		} else {
			jobs = append(jobs, r)
		}
	}
	at := m.selected(rows)
	happened := min(storyLines, len(m.story), max(0, room-6))
	lists := room - happened - 2 // headings
	forPeers := min(len(peers), max(lists/2, lists-len(jobs), 1))
	forJobs := max(0, lists-forPeers)
	out := []string{m.paint(dim, m.peerRow("  PEER", "CPU", "TASKS", "LINK", "BUSY"))}
	out = append(out, m.list(peers, at, forPeers, m.peerLine)...)
	out = append(out, m.paint(dim, m.jobRow("  JOB", "DONE", "LEFT", "✗")))
	out = append(out, m.list(jobs, at-len(peers), forJobs, m.jobLine)...)
	for len(out) < room-happened {
		out = append(out, "")
	}
	for _, e := range m.story[len(m.story)-happened:] {
		out = append(out, m.paint(dim, " "+m.when(e.Time))+" "+clean(e.Text))
	}
	return out
}

// when says the time of day, and the day if it is another one.
func (m *Model) when(t time.Time) string {
	t = t.In(m.at.Location())
	if t.Format(time.DateOnly) != m.at.Format(time.DateOnly) {
		return t.Format("Jan _2  ")
	}
	return t.Format(time.TimeOnly)
}

// list draws rows around the selected one, and says how many have no room.
func (m *Model) list(rows []row, at, room int, draw func(row) string) (out []string) {
	if room <= 0 {
		return nil
	}
	first := 0
	if len(rows) > room {
		first = max(0, min(at-room/2, len(rows)-room))
	}
	for i := first; i < min(first+room, len(rows)); i++ {
		line := draw(rows[i])
		if i == at {
			line = m.mark(line)
		}
		out = append(out, line)
	}
	if hidden := len(rows) - room; hidden > 0 && room > 1 && at != first+room-1 {
		out[room-1] = m.paint(dim, fmt.Sprintf("   … %d more", hidden+1))
	}
	return out
}

// mark shows which row is selected, also without colours.
func (m *Model) mark(line string) string {
	line = ">" + strings.TrimPrefix(line, " ")
	if !m.Colour {
		return line
	}
	return "\x1b[" + inverted + "m" + cell(stripped(line), m.Width) + "\x1b[0m"
}

func (m *Model) peerRow(name, cpu, tasks, link, use string) string {
	return cell(name, 16) + " " + cell(cpu, 18) + " " + cell(tasks, 6) + " " + cell(link, 14) + " " + use
}

func (m *Model) peerLine(r row) string {
	p := r.peer
	glyph := m.paint(good, "●")
	switch {
	case p.Coordinator:
		glyph = "★"
	case !here(p):
		glyph = m.paint(trouble, "✗")
	case p.Standing == "suspect":
		glyph = m.paint(waiting, "?")
	}
	name := " " + glyph + " " + clean(p.Name)
	if !here(p) {
		why := p.Standing
		if p.Standing == "unreachable" {
			why = "away " + span(seconds(p.Age))
		}
		return cell(name, 16) + " " + m.paint(trouble, why) + heldBy(p)
	}
	cpu := m.paint(running, bar(share(p.CPUsRunning, p.CPUs), 10, "█", "░")) + fmt.Sprintf(" %s/%s", number(p.CPUsRunning), number(p.CPUs))
	link := p.Path
	if p.RTT > 0 && p.Path != "self" {
		link += fmt.Sprintf(" %.0f ms", max(1, p.RTT*1000))
	}
	if p.Availability != "active" {
		link = m.paint(waiting, map[string]string{"drain": "drained", "pause": "paused"}[p.Availability])
	}
	if p.Trouble != "" || len(p.Troubles) > 0 {
		link = m.paint(trouble, "trouble")
	}
	return m.peerRow(name, cpu, fmt.Sprint(p.Tasks), link, m.busy(p, m.Width-60))
}

// busy is how busy a machine's processors are and were, in n columns.
func (m *Model) busy(p *api.Peer, n int) string {
	if p.Load == nil || p.Load.CPU == nil {
		return m.paint(dim, "not told")
	}
	return fmt.Sprintf("%3.0f%% ", 100**p.Load.CPU) + spark(m.use[p.ID], min(useKept, max(0, n-5)))
}

func heldBy(p *api.Peer) string {
	if p.Tasks == 0 {
		return ""
	}
	return " · " + many(p.Tasks, "task") + " there"
}

func (m *Model) jobRow(name, done, left, bad string) string {
	return cell(name, 20) + " " + cell(done, max(8, m.Width-48)) + " " + cell(left, 18) + " " + bad
}

func (m *Model) jobLine(r row) string {
	j := r.job
	name := " " + m.glyph(j) + " " + clean(j.Name)
	n, done := total(j), ended(j)
	room := max(8, m.Width-48)
	bad := ""
	if k := failed(j); k > 0 {
		bad = m.paint(trouble, fmt.Sprint(k))
	}
	switch {
	case j.Over():
		return m.jobRow(name, said(j.State, "cancelled"), m.paint(dim, span(m.at.Sub(*j.Ended))+" ago"), bad)
	case j.Waiting != "" && j.Tasks["running"] == 0:
		return cell(name, 20) + " " + m.paint(waiting, clean(j.Waiting))
	case j.Schedule != nil:
		return m.jobRow(name, "schedule "+clean(j.Schedule.Cron), next(j, m.at), bad)
	case j.Type == "service" || j.Type == "global":
		return m.jobRow(name, fmt.Sprintf("%d of %d run", j.Tasks["running"], j.Wanted), "", bad)
	}
	left := fmt.Sprintf("%d/%d", done, n)
	if d := m.left(j); d > 0 {
		left += " " + span(d)
	}
	return m.jobRow(name, m.paint(running, bar(share(float64(done), float64(n)), room, "━", "╌")), left, bad)
}

func next(j *api.Job, now time.Time) string {
	if j.Schedule.Next == nil {
		return ""
	}
	return "in " + span(j.Schedule.Next.Sub(now))
}

func (m *Model) glyph(j *api.Job) string {
	switch {
	case j.State == "complete":
		return m.paint(good, "✓")
	case j.State == "failed":
		return m.paint(trouble, "✗")
	case j.Over():
		return m.paint(dim, "■")
	case j.Tasks["running"] > 0:
		return m.paint(running, "●")
	}
	return m.paint(dim, "○")
}

func (m *Model) footer() string {
	switch {
	case m.asking != nil:
		return m.paint(waiting, " "+m.question+" y: yes, any other key: no")
	case m.typing:
		return " /" + clean(m.find) + "▏"
	case m.said != "":
		return " " + clean(m.said)
	}
	keys := " ↑↓ ⏎ open  l logs  c cancel  d drain  / find  ? keys  q quit"
	switch m.page {
	case logPage:
		keys = " ↑↓ scroll  q back"
	case jobPage:
		keys = " ↑↓ choose a task  l its output  c cancel the job  ? keys  q back"
	case peerPage:
		keys = " d drain  a activate  ? keys  q back"
	case helpPage:
		keys = " any key: back"
	}
	if m.find != "" && m.page == overview {
		keys = " /" + clean(m.find) + ", esc: all · " + strings.TrimSpace(keys)
	}
	return m.paint(dim, keys)
}

// question is what is asked before a row is changed.
func question(what Want, r row) string {
	switch what {
	case Cancel:
		return fmt.Sprintf("Cancel %s, with %s that have not ended?", clean(r.job.Name), many(total(r.job)-ended(r.job), "task"))
	case Drain:
		return fmt.Sprintf("Drain %s? %s there go elsewhere.", clean(r.peer.Name), many(r.peer.Tasks, "task"))
	}
	return fmt.Sprintf("Have %s take tasks again?", clean(r.peer.Name))
}
