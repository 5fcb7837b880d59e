package top

import (
	"slices"
	"unicode/utf8"
)

// Key takes in a key, named as bubbletea does, and returns what is to be asked.
func (m *Model) Key(key string) []Ask {
	if key == "ctrl+c" {
		return []Ask{{What: Quit}}
	}
	m.said = ""
	switch {
	case m.asking != nil:
		return m.answer(key)
	case m.typing:
		m.typed(key)
		return nil
	}
	switch key {
	case "?":
		if m.page != helpPage {
			m.before, m.page = m.page, helpPage
			return nil
		}
		m.page = m.before
		return nil
	case "q", "esc", "left", "h", "backspace":
		return m.back(key)
	}
	if m.page == helpPage {
		m.page = m.before
		return nil
	}
	if m.moved(key) {
		return nil
	}
	return m.does(key)
}

// back leaves a page, and with q the last one.
func (m *Model) back(key string) []Ask {
	switch m.page {
	case helpPage, logPage:
		m.page, m.scroll = m.before, 0
	case overview:
		if key == "q" {
			return []Ask{{What: Quit}}
		}
		m.find = ""
	default:
		m.page, m.tasks, m.slow = overview, nil, nil
	}
	return nil
}

// moved tells whether a key only moves what is shown.
func (m *Model) moved(key string) bool {
	by := map[string]int{"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -10, "pgdown": 10, "space": 10, "home": -1 << 20, "g": -1 << 20, "end": 1 << 20, "G": 1 << 20, "shift+g": 1 << 20}[key]
	if by == 0 {
		return false
	}
	if m.page == logPage {
		m.scroll = max(0, min(m.scroll-by, len(m.logs.Lines)-1))
		return true
	}
	if m.page == jobPage && len(m.tasks) > 0 {
		m.task = m.tasks[max(0, min(m.chosenTask()+by, len(m.tasks)-1))].ID
	}
	if rows := m.rows(); m.page == overview && len(rows) > 0 {
		m.chosen = rows[max(0, min(m.selected(rows)+by, len(rows)-1))].key
	}
	return true
}

// does what a key stands for at the row it is about.
func (m *Model) does(key string) []Ask {
	if key == "/" {
		m.page, m.typing, m.find = overview, true, ""
		return nil
	}
	r, ok := m.current()
	if !ok || !slices.Contains([]string{"enter", "right", "l", "c", "d", "a"}, key) {
		return nil
	}
	opens := key == "enter" || key == "right"
	switch {
	case opens && m.page == overview:
		m.open, m.chosen, m.tasks, m.slow, m.task = r.key, r.key, nil, nil, ""
		if r.peer != nil {
			m.page = peerPage
			return nil
		}
		m.page = jobPage
		return m.once(Ask{Tasks, r.job.ID})
	case r.job != nil && (opens && m.page == jobPage || key == "l" && m.page != logPage):
		id := r.job.ID
		if at := m.chosenTask(); m.page == jobPage && at >= 0 {
			id, m.task = m.tasks[at].ID, m.tasks[at].ID
		}
		m.before, m.page, m.open, m.chosen, m.logs, m.scroll = m.page, logPage, r.key, r.key, LogsOf{ID: id}, 0
		return m.once(Ask{Logs, id})
	case key == "c" && r.job != nil && !r.job.Over():
		m.ask(Cancel, r.job.ID, r)
	case key == "d" && r.peer != nil && r.peer.Availability != "drain":
		m.ask(Drain, r.peer.ID, r)
	case (key == "a" || key == "d") && r.peer != nil && r.peer.Availability != "active":
		m.ask(Activate, r.peer.ID, r)
	case key == "l" || key == "c":
		m.said = map[bool]string{true: "choose a job: " + key + " is about jobs", false: "it is over"}[r.job == nil]
	case key == "d":
		m.said = "choose a peer: d is about peers"
	}
	return nil
}

// ask asks before a row is changed. What it is about stays, whatever becomes of the row meanwhile.
func (m *Model) ask(what Want, id string, r row) {
	m.asking, m.question = &Ask{what, id}, question(what, r)
}

// answer takes a yes, or anything else for a no.
func (m *Model) answer(key string) []Ask {
	ask := *m.asking
	m.asking = nil
	if key != "y" && key != "Y" && key != "shift+y" {
		m.said = "nothing was done"
		return nil
	}
	return []Ask{ask, {What: Overview}}
}

// typed takes in a letter of what is looked for.
func (m *Model) typed(key string) {
	switch key {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.find = false, ""
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(m.find)
		m.find = m.find[:len(m.find)-n]
	case "space":
		m.find += " "
	default:
		if utf8.RuneCountInString(key) == 1 && len(m.find) < 60 {
			m.find += key
		}
	}
}
