package orders

import (
	"context"
	"math"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/taskstate/spell"
)

// Settings implements api.SettingsBackend.
func (o *Orders) Settings(context.Context) (api.SettingsAnswer, error) {
	s := o.settings().Full()
	var stamp int64
	o.cfg.Replica.Read(func(st *ledger.State) { stamp = st.Stamp() })
	return api.SettingsAnswer{
		Ahead: ahead(stamp - o.cfg.Now()),
		Settings: api.Settings{
			Beat: float64(s.Beat) / 1000, Grace: float64(s.Grace) / 1000, KeepJobs: s.KeepJobs, KeepFor: float64(s.KeepFor) / 1000,
			RequireOrders: string(s.RequireOrders),
		},
		AsOf: time.Now().UTC(),
	}, nil
}

// ahead is so many milliseconds in seconds, 0 below a minute: clocks differ.
func ahead(ms int64) float64 {
	if ms < time.Minute.Milliseconds() {
		return 0
	}
	return float64(ms) / 1000
}

func (o *Orders) settings() (s ledger.Settings) {
	o.cfg.Replica.Read(func(st *ledger.State) { s = st.Settings() })
	return s
}

// Set implements api.SettingsBackend.
func (o *Orders) Set(ctx context.Context, s api.Settings) (api.SettingsAnswer, error) {
	for _, v := range []float64{s.Beat, s.Grace, s.KeepFor} {
		if math.IsNaN(v) || v < 0 || v > ledger.MostKeptFor {
			return api.SettingsAnswer{}, api.Errorf(api.Usage, "beat, grace and keep_for are seconds above 0")
		}
	}
	if !s.Time.IsZero() {
		return o.setTime(ctx, s)
	}
	ms := func(seconds float64) int64 { return int64(math.Round(seconds * 1000)) }
	cmd := ledger.Set{Beat: ms(s.Beat), Grace: ms(s.Grace), KeepJobs: s.KeepJobs, KeepFor: ms(s.KeepFor), RequireOrders: ledger.Switch(s.RequireOrders)}
	if cmd == (ledger.Set{}) {
		return api.SettingsAnswer{}, api.Errorf(api.Usage, "nothing to set: beat, grace, keep_jobs, keep_for, require_orders or time")
	}
	if err := o.settings().With(cmd).Check(); err != nil { // the ledger asks again; here there are words for it
		return api.SettingsAnswer{}, api.Errorf(api.Usage, "%v", err)
	}
	if err := o.Order(ctx, calls.Call{Set: &cmd}, "the settings are as before"); err != nil {
		return api.SettingsAnswer{}, err
	}
	return o.Settings(ctx)
}

// setTime sets the ledger's time back.
func (o *Orders) setTime(ctx context.Context, s api.Settings) (api.SettingsAnswer, error) {
	to := s.Time.UnixMilli()
	if s.Time = (time.Time{}); s != (api.Settings{}) {
		return api.SettingsAnswer{}, api.Errorf(api.Usage, "time is set alone, without other settings")
	}
	var stamp int64
	o.cfg.Replica.Read(func(st *ledger.State) { stamp = st.Stamp() })
	if to <= 0 || to >= stamp {
		return api.SettingsAnswer{}, api.Errorf(api.Conflict, "the ledger's time is %s, and is only ever set back; it goes on by itself", spell.Minute(stamp))
	}
	if err := o.Order(ctx, calls.Call{SetTime: &ledger.SetTime{To: to}}, "the ledger's time is as before"); err != nil {
		return api.SettingsAnswer{}, err
	}
	a, err := o.Settings(ctx)
	o.cfg.Replica.Read(func(st *ledger.State) {
		for _, id := range st.GoneSince(to) {
			a.Deleted = append(a.Deleted, string(id))
		}
	})
	return a, err
}
