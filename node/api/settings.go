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
}

// SettingsAnswer answers GET and POST /v1/settings.
type SettingsAnswer struct {
	Settings Settings  `json:"settings"`
	AsOf     time.Time `json:"as_of"`
}
