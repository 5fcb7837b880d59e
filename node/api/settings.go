package api

import (
	"context"
	"time"
)

// SettingsBackend reads and changes what holds for the whole cluster.
type SettingsBackend interface {
	Settings(ctx context.Context) (SettingsAnswer, error)
	// Set changes the settings that are not zero. It fails with Usage for values that would not do.
	Set(ctx context.Context, s Settings) (SettingsAnswer, error)
}

// Settings hold for the whole cluster, and are followed while it runs.
type Settings struct {
	Beat  float64 `json:"beat,omitempty"`  // seconds between two signs of life of a worker to the coordinator
	Grace float64 `json:"grace,omitempty"` // seconds without one until its session is over

	KeepJobs int     `json:"keep_jobs,omitempty"` // jobs that are over and remembered, at most
	KeepFor  float64 `json:"keep_for,omitempty"`  // seconds for which they are

	RequireOrders string `json:"require_orders,omitempty"` // "on" or "off": whether jobs and acts that nobody signed are refused

	// Time is to be set alone, and sets the ledger's time back after a wrong clock took it
	// ahead: what was stamped later is stamped with it, and requests signed before it are
	// refused from then on.
	Time time.Time `json:"time,omitzero"`
}

// SettingsAnswer answers GET and POST /v1/settings.
type SettingsAnswer struct {
	Settings Settings  `json:"settings"`
	Ahead    float64   `json:"ledger_ahead,omitempty"` // seconds by which the ledger's time is ahead of this machine's clock
	Deleted  []string  `json:"deleted,omitempty"`      // setting the time: jobs that were deleted too early
	AsOf     time.Time `json:"as_of"`
}
