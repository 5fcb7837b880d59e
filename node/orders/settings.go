package orders

import (
	"context"
	"math"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
)

// Settings implements api.SettingsBackend.
func (o *Orders) Settings(context.Context) (api.SettingsAnswer, error) {
	s := o.settings().Full()
	return api.SettingsAnswer{
		Settings: api.Settings{
			Beat: float64(s.Beat) / 1000, Grace: float64(s.Grace) / 1000, KeepJobs: s.KeepJobs, KeepFor: float64(s.KeepFor) / 1000,
			RequireOrders: string(s.RequireOrders),
		},
		AsOf: time.Now().UTC(),
	}, nil
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
	ms := func(seconds float64) int64 { return int64(math.Round(seconds * 1000)) }
	cmd := ledger.Set{Beat: ms(s.Beat), Grace: ms(s.Grace), KeepJobs: s.KeepJobs, KeepFor: ms(s.KeepFor), RequireOrders: ledger.Switch(s.RequireOrders)}
	if cmd == (ledger.Set{}) {
		return api.SettingsAnswer{}, api.Errorf(api.Usage, "nothing to set: beat, grace, keep_jobs, keep_for or require_orders")
	}
	if err := o.settings().With(cmd).Check(); err != nil { // the ledger asks again; here there are words for it
		return api.SettingsAnswer{}, api.Errorf(api.Usage, "%v", err)
	}
	if err := o.Order(ctx, calls.Call{Set: &cmd}, "the settings are as before"); err != nil {
		return api.SettingsAnswer{}, err
	}
	return o.Settings(ctx)
}
