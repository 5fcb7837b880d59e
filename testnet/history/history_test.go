package history_test

import (
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/testnet/history"
)

const forever = time.Hour

func submit(call, ret time.Duration, content string, a history.Answer) history.Op {
	return history.Op{Kind: history.Submit, Job: "j", Content: content, Answer: a, Call: call, Return: ret}
}

func cancel(call, ret time.Duration, a history.Answer) history.Op {
	return history.Op{Kind: history.Cancel, Job: "j", Answer: a, Call: call, Return: ret}
}

func read(call, ret time.Duration, session string, v history.View) history.Op {
	return history.Op{Kind: history.Read, Job: "j", Session: session, View: v, Call: call, Return: ret}
}

func fresh(call, ret time.Duration, v history.View) history.Op {
	o := read(call, ret, "", v)
	o.Fresh = true
	return o
}

func ended(at time.Duration, how string) history.Op {
	return history.Op{Kind: history.End, Job: "j", View: history.View{Known: true, End: how}, Call: at, Return: at}
}

var (
	unknown   = history.View{}
	alive     = history.View{Known: true}
	cancelled = history.View{Known: true, Cancelled: true}
	complete  = history.View{Known: true, End: "complete"}
	shut      = history.View{Known: true, Cancelled: true, End: "shutdown"}
)

func TestHistoriesThatKeepEveryPromise(t *testing.T) {
	for name, ops := range map[string][]history.Op{
		"a job runs": {submit(0, 1, "x", history.Done), read(2, 3, "a", alive), read(4, 5, "a", complete)},
		"a peer is behind another": {
			submit(0, 1, "x", history.Done), read(4, 5, "a", complete), read(6, 7, "b", alive), read(6, 7, "c", unknown), read(8, 9, "b", complete),
		},
		"a submission without an answer took effect late": {
			submit(0, forever, "x", history.Unknown), fresh(5, 6, unknown), read(7, 8, "a", alive),
		},
		"or never":                  {submit(0, forever, "x", history.Unknown), fresh(5, 6, unknown)},
		"the same submission twice": {submit(0, 4, "x", history.Done), submit(1, 3, "x", history.Done), read(5, 6, "a", alive)},
		"two jobs of one id":        {submit(0, 4, "x", history.Done), submit(1, 3, "y", history.Other)},
		"a cancel":                  {submit(0, 1, "x", history.Done), cancel(2, 3, history.Done), read(4, 5, "a", cancelled), read(6, 7, "a", shut)},
		"its tasks were stopped, and it was not cancelled": {submit(0, 1, "x", history.Done), read(2, 3, "a", history.View{Known: true, End: "shutdown"})},
		"cancelled twice":                    {submit(0, 1, "x", history.Done), cancel(2, 3, history.Done), read(4, 5, "a", shut), cancel(6, 7, history.Done)},
		"a cancel that comes too late":       {submit(0, 1, "x", history.Done), read(2, 3, "a", complete), cancel(4, 5, history.Over)},
		"an end that nobody saw":             {submit(0, forever, "x", history.Unknown), cancel(4, 5, history.Over)},
		"a cancel without an answer":         {submit(0, 1, "x", history.Done), cancel(2, forever, history.Unknown), read(4, 5, "a", alive), read(6, 7, "a", shut)},
		"the end was decided before it seen": {submit(0, 1, "x", history.Done), ended(3, "complete"), read(2, 4, "a", complete)},
	} {
		if b := history.Check(ops); b != nil {
			t.Errorf("%s: %v", name, b)
		}
	}
}

func TestEveryBrokenPromiseIsNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		ops []history.Op
		why string
	}{
		"an acknowledged job is not there":    {[]history.Op{submit(0, 1, "x", history.Done), fresh(2, 3, unknown)}, "no order"},
		"a job nobody submitted":              {[]history.Op{submit(5, 6, "x", history.Done), read(2, 3, "a", alive)}, "no order"},
		"two jobs of one id, both taken":      {[]history.Op{submit(0, 1, "x", history.Done), submit(0, 1, "y", history.Done)}, "no order"},
		"refused for a job that is the same":  {[]history.Op{submit(0, 1, "x", history.Done), submit(2, 3, "x", history.Other)}, "no order"},
		"refused for no job at all":           {[]history.Op{submit(2, 3, "x", history.Other)}, "no order"},
		"two ends":                            {[]history.Op{submit(0, 1, "x", history.Done), read(2, 3, "a", complete), read(2, 3, "b", shut)}, "more than one way"},
		"an end is taken back":                {[]history.Op{submit(0, 1, "x", history.Done), read(2, 3, "a", complete), read(4, 5, "a", alive)}, "in a it was complete"},
		"a cancel is taken back":              {[]history.Op{submit(0, 1, "x", history.Done), cancel(1, forever, history.Unknown), read(2, 3, "a", cancelled), read(4, 5, "a", alive)}, "in a it was"},
		"a job is forgotten":                  {[]history.Op{submit(0, 1, "x", history.Done), read(2, 3, "a", alive), read(4, 5, "a", unknown)}, "in a it was"},
		"cancelled, and nobody cancelled":     {[]history.Op{submit(0, 1, "x", history.Done), read(2, 3, "a", cancelled)}, "no order"},
		"a cancel that is lost":               {[]history.Op{submit(0, 1, "x", history.Done), cancel(2, 3, history.Done), fresh(4, 5, alive)}, "no order"},
		"cancelled after its end":             {[]history.Op{submit(0, 1, "x", history.Done), read(2, 3, "a", complete), cancel(4, 5, history.Done)}, "no order"},
		"over, and nothing had ended":         {[]history.Op{submit(0, 1, "x", history.Done), cancel(2, 3, history.Over), ended(4, "complete")}, "no order"},
		"a peer is ahead of the ledger":       {[]history.Op{submit(0, 1, "x", history.Done), read(2, 3, "a", complete), ended(4, "complete")}, "no order"},
		"cancelled before the cancel":         {[]history.Op{submit(0, 1, "x", history.Done), read(2, 3, "a", cancelled), cancel(4, 5, history.Done)}, "no order"},
		"a cancel of a job that is not there": {[]history.Op{cancel(0, 1, history.Done), submit(2, 3, "x", history.Done)}, "no order"},
	} {
		b := history.Check(c.ops)
		if b == nil || !strings.Contains(b.Error(), c.why) {
			t.Errorf("%s: want %q, not %v", name, c.why, b)
		}
	}
}

func TestCallsComeInTheOrderOfTheirInvocation(t *testing.T) {
	var h history.History
	for _, at := range []time.Duration{5, 1, 3} {
		h.Add(submit(at, at, "x", history.Done))
	}
	got := h.Ops()
	if len(got) != 3 || got[0].Call != 1 || got[1].Call != 3 || got[2].Call != 5 {
		t.Errorf("%v", got)
	}
}
