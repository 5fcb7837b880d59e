package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coveyproject/covey/node/api"
)

// Judge says what the facts mean, in an order that stays.
func Judge(f Facts) []api.Finding {
	var l list
	judge(&l, "peer", "whether a peer runs here", f.Running, func(runs bool) { l.running(f.Dir, runs) })
	judge(&l, "trouble", "what the peer itself knows", f.Troubles, l.troubles)
	l = append(l, f.Faults...)
	judge(&l, "voters", "the voters", f.Voters, l.voters)
	judge(&l, "elections", "how often coordinators are elected", f.Elections, l.elections)
	judge(&l, "tcp", "whether others reach it by TCP", f.TCP, l.tcp)
	judge(&l, "udp", "whether others reach it by UDP", f.UDP, l.udp)
	judge(&l, "nat", "what kind of NAT it is behind", f.NAT, l.nat)
	judge(&l, "relays", "its links and relays", f.Links, l.links)
	judge(&l, "links", "what its links carry", f.Carried, l.carried)
	judge(&l, "lan", "how it is found on its network", f.LAN, l.lan)
	judge(&l, "clock", "its clock", f.Clock, l.clock)
	judge(&l, "sync", "how fast its disk is", f.Sync, l.sync)
	judge(&l, "room", "the room on its disk", f.Room, func(r Room) { l.room(f.Dir, r) })
	judge(&l, "folder", "whose its data folder is", f.Folder, func(d Folder) { l.folder(f.Dir, d) })
	judge(&l, "limits", "how many files and processes it may have", f.Limits, l.limits)
	judge(&l, "cgroup", "whether it can limit its tasks", f.Cgroup, l.cgroup)
	judge(&l, "versions", "which versions run", f.Versions, l.versions)
	judge(&l, "names", "whether others have its name", f.Names, l.names)
	return l
}

// list gathers findings.
type list []api.Finding

func (l *list) add(check, result, do, format string, args ...any) {
	*l = append(*l, api.Finding{Check: check, Result: result, Do: do, Text: fmt.Sprintf(format, args...)})
}

func (l *list) ok(check, format string, args ...any) {
	l.add(check, api.FindingOK, "", format, args...)
}

func (l *list) warn(check, do, format string, args ...any) {
	l.add(check, api.FindingWarn, do, format, args...)
}

func (l *list) fail(check, do, format string, args ...any) {
	l.add(check, api.FindingFail, do, format, args...)
}

// judge has a fact judged, or says that it is not known.
func judge[T any](l *list, check, what string, k Known[T], f func(T)) {
	if !k.is {
		l.add(check, api.FindingUntried, "", "not tried: %s (%s)", what, cmp.Or(k.why, "nobody looked"))
		return
	}
	f(k.value)
}

func (l *list) running(dir string, runs bool) {
	if runs {
		l.ok("peer", "it runs, with the data folder %s", dir)
		return
	}
	l.fail("peer", "`peer up`", "no peer runs with the data folder %s", dir)
}

// grave are troubles with which a peer, or what others trust it with, does not work.
var grave = []string{
	api.TroubleTakesNoTasks, api.TroubleCopied, api.TroubleDiskFull, api.TroubleExhausted, api.TroubleStoreFull, api.TroubleOldVersion,
	api.TroubleLies, api.TroubleLedgerDiffers, api.TroubleStartsNothing, api.TroubleLogLost, api.TroubleStaleSeat,
}

func (l *list) troubles(t Troubles) {
	for _, x := range t.Known {
		text, do := parted(x.Message)
		if slices.Contains(grave, x.Code) {
			l.fail("trouble", do, "%s", text)
		} else {
			l.warn("trouble", do, "%s", text)
		}
	}
	for _, x := range t.Warnings {
		text, do := parted(x)
		l.warn("trouble", do, "%s", text)
	}
	if len(t.Known)+len(t.Warnings) == 0 {
		l.ok("trouble", "it knows of nothing that is wrong with it")
	}
}

// parted is a message of a peer as what happened, and what to type: what follows the last semicolon
// or colon, if there is a command in it.
func parted(message string) (text, do string) {
	for _, mark := range []string{"; ", ": "} {
		if i := strings.LastIndex(message, mark); i > 0 && strings.Contains(message[i:], "`") && !strings.Contains(message[:i], "`") {
			return message[:i], message[i+len(mark):]
		}
	}
	return message, ""
}

// few are names for a line of text.
func few(names []string) string {
	const most = 5
	names = slices.Sorted(slices.Values(names))
	if over := len(names) - most; over > 1 {
		return fmt.Sprintf("%s and %d others", strings.Join(names[:most], ", "), over)
	}
	return strings.Join(names, ", ")
}

// many is a count with its word.
func many(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// span is a time for people, to about two places.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return span(-d)
	case d < 100*time.Microsecond:
		return "100µs" // at most: nothing takes no time
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return many(int(d.Hours()), "hour")
	}
	return many(int(d.Hours()/24), "day")
}

// size is a number of bytes for people.
func size(n int64) string {
	const unit = 1 << 10
	v, word := float64(n)/(unit*unit), "MiB"
	if v >= 10*unit {
		v, word = v/unit, "GiB"
	}
	return fmt.Sprintf("%.0f %s", v, word)
}

// Troubled judges what is known of a peer that does not answer.
func Troubled(known []api.Trouble) []api.Finding {
	var l list
	l.troubles(Troubles{Known: known})
	return l
}
