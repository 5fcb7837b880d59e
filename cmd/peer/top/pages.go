package top

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/coveyproject/covey/node/api"
)

func width(s string) int { return ansi.StringWidth(s) }

func stripped(s string) string { return ansi.Strip(s) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func share(part, all float64) float64 {
	if all <= 0 {
		return 0
	}
	return part / all
}

// number is a count of processors, without zeros that say nothing.
func number(f float64) string { return strconv.FormatFloat(float64(int(f*10+0.5))/10, 'f', -1, 64) }

var help = []string{
	"", "  ↑ ↓ k j, PgUp PgDn, g G   choose a row, or scroll", "  Enter                     open a job, a peer or a task", "  l                         the newest lines of a task, or of some of a job",
	"  c                         cancel a job; asks first", "  d                         drain a peer, or end that; asks first", "  a                         have a peer take tasks again",
	"  /                         find by name; esc shows all again", "  q, Esc                    back; q leaves at last",
	"", "  ● runs  ○ waits  ✓ complete  ✗ failed, or away  ★ coordinator", "  CPU is what tasks that run were promised; BUSY is the machine, with", "  all that runs there, and how busy it was since this was opened",
}

// jobLines is a job: what became of its tasks, those that failed, and the slowest.
func (m *Model) jobLines(room int) []string {
	r, ok := m.current()
	if !ok || r.job == nil {
		return []string{"", " this job is not kept any more"}
	}
	j := r.job
	out := []string{"", " " + m.glyph(j) + " " + m.paint(bold, clean(j.Name)) + "  " + m.paint(dim, j.ID) + "  " + said(j.State, "cancelled")}
	n, done := total(j), ended(j)
	if n > 0 && !j.Over() {
		out = append(out, "   "+m.paint(running, bar(share(float64(done), float64(n)), max(8, m.Width-30), "━", "╌"))+fmt.Sprintf("  %d/%d", done, n))
	}
	var counts []string
	for _, s := range []string{"pending", "running", "complete", "failed", "rejected", "shutdown", "orphaned"} {
		if k := j.Tasks[s]; k > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", k, said(s, "stopped")))
		}
	}
	out = append(out, "   "+strings.Join(counts, " · "))
	if d := m.left(j); d > 0 {
		out = append(out, "   about "+span(d)+" to go")
	}
	if j.Waiting != "" && !j.Over() {
		out = append(out, "   "+m.paint(waiting, "waits: "+clean(j.Waiting)))
	}
	for _, a := range j.Unreachable {
		out = append(out, "   "+m.paint(trouble, clean(a.PeerName)+" cannot be reached")+fmt.Sprintf(": %s there %s", many(a.Tasks, "task"), clean(a.Then)))
	}
	for _, text := range m.slow {
		out = append(out, "   "+m.paint(waiting, clean(text)))
	}
	out = append(out, "", m.paint(dim, taskRow("   TASK", "STATE", "PEER", "TOOK", "")))
	return append(out, m.list(m.taskRows(), m.chosenTask(), room-len(out), m.taskLine)...)
}

func (m *Model) taskLine(r row) string {
	t := r.task
	state := said(t.State, "stopped")
	if slices.Contains([]string{"failed", "rejected", "orphaned"}, state) {
		state = m.paint(trouble, state)
	}
	took := ""
	if t.Took > 0 {
		took = span(seconds(t.Took))
	}
	note := t.Message
	if note == "" {
		note = t.Item
	}
	return taskRow("   "+api.ShortTask(t.Called()), state, clean(t.PeerName), took, clean(note))
}

// said is a state as people read it: "shutdown" is a word of programs.
func said(state, shutdown string) string {
	if state == "shutdown" {
		return shutdown
	}
	return state
}

func taskRow(task, state, peer, took, note string) string {
	return cell(task, 14) + " " + cell(state, 10) + " " + cell(peer, 14) + " " + cell(took, 8) + " " + note
}

// peerLines is a peer.
func (m *Model) peerLines() []string {
	r, ok := m.current()
	if !ok || r.peer == nil {
		return []string{"", " this peer is not in the cluster any more"}
	}
	p := r.peer
	word := func(name, text string) string { return "   " + m.paint(dim, cell(name, 14)) + text }
	out := []string{"", " " + m.paint(bold, clean(p.Name)) + "  " + p.Standing + "  " + p.Availability, word("id", p.ID), word("version", clean(p.Version)+" "+p.OS+" "+p.Arch)}
	out = append(out,
		word("processors", fmt.Sprintf("%s of %s run, %s promised and not begun", number(p.CPUsRunning), number(p.CPUs), number(p.CPUsQueued))),
		word("memory", fmt.Sprintf("%d MiB of %d MiB promised", p.MemoryUsed>>20, p.Memory>>20)),
		word("tasks", fmt.Sprint(p.Tasks)), word("link", p.Path+rtt(p)), word("roles", strings.Join(p.Roles, " ")), word("busy", m.busy(p, m.Width-20)))
	if l := p.Load; l != nil && l.Memory != nil {
		out = append(out, word("in use", fmt.Sprintf("%d MiB of %d MiB", *l.Memory>>20, l.MemoryOf>>20)))
	}
	if l := p.Load; l != nil && l.Average != nil {
		out = append(out, word("load average", number(*l.Average)))
	}
	if p.AvailabilityReason != "" {
		out = append(out, word("why", clean(p.AvailabilityReason)))
	}
	var labels []string
	for k, v := range p.Labels {
		labels = append(labels, k+"="+v)
	}
	slices.Sort(labels)
	if len(labels) > 0 {
		out = append(out, word("labels", clean(strings.Join(labels, " "))))
	}
	for _, t := range p.Troubles {
		out = append(out, word("trouble", m.paint(trouble, clean(t.Message))))
	}
	return out
}

func rtt(p *api.Peer) string {
	if p.RTT <= 0 {
		return ""
	}
	return fmt.Sprintf(", %.0f ms", max(1, p.RTT*1000))
}

// logLines are the newest lines of a task or of some of a job, or what is above them.
func (m *Model) logLines(room int) []string {
	r, _ := m.current()
	name := m.logs.ID
	if r.job != nil {
		name = strings.Replace(name, r.job.ID, clean(r.job.Name), 1)
	}
	of := "the newest lines"
	if m.logs.Tasks > 1 {
		of += " of " + many(m.logs.Tasks, "task") + ", those first that failed or run"
	}
	out := []string{m.paint(dim, " output of "+name+", "+of)}
	room--
	if len(m.logs.Lines) == 0 {
		return append(out, "", " nothing yet")
	}
	end := max(min(room, len(m.logs.Lines)), len(m.logs.Lines)-m.scroll)
	for _, l := range m.logs.Lines[max(0, end-room):end] {
		out = append(out, " "+clean(l))
	}
	return out
}
