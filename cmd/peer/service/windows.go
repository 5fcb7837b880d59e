//go:build windows

package service

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/coveyproject/covey/node/api"
)

// Inside tells whether Windows started this process as a service.
func Inside() bool {
	yes, err := svc.IsWindowsService()
	return err == nil && yes
}

// Run calls run; in a service of Windows its context ends when Windows says stop.
func Run(ctx context.Context, run func(context.Context) error) error {
	if !Inside() {
		return run(ctx)
	}
	h := &handler{ctx: ctx, run: run}
	return errors.Join(svc.Run(Name, h), h.err)
}

// handler is the service as Windows sees it.
type handler struct {
	ctx context.Context
	run func(context.Context) error
	err error
}

// Execute implements svc.Handler.
func (h *handler) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (own bool, code uint32) {
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- h.run(ctx) }() // ends with ctx, and Execute waits for it
	status <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	for {
		select {
		case h.err = <-ended:
			status <- svc.Status{State: svc.StopPending}
			if h.err != nil {
				return true, 1
			}
			return false, 0
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				status <- r.CurrentStatus
			case svc.Stop, svc.Shutdown:
				status <- svc.Status{State: svc.StopPending}
				cancel()
			}
		}
	}
}

type services struct{}

// Windows is the Manager of Windows: nil elsewhere.
func Windows() Manager { return services{} }

// localService is the account of least rights that may use the network.
const localService = `NT AUTHORITY\LocalService`

// ticketName is where the service finds what it joins with: not in its command line, which every
// user may read.
const ticketName = "ticket"

// with calls do with the service, if there is one.
func with(s Spec, do func(*mgr.Service) error) error {
	m, err := mgr.Connect()
	if err != nil {
		return api.Errorf(api.Refused, "Windows does not let its services be changed (%v): open a terminal as administrator", err)
	}
	defer m.Disconnect()
	x, err := m.OpenService(Name)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return notThere(s)
	}
	if err != nil {
		return err
	}
	defer x.Close()
	return do(x)
}

// Install implements Manager.
func (services) Install(s Spec) error {
	m, err := mgr.Connect()
	if err != nil {
		return api.Errorf(api.Refused, "Windows does not let its services be changed (%v): open a terminal as administrator", err)
	}
	defer m.Disconnect()
	args := []string{"--data", s.Data, "up"}
	if s.Join != "" {
		if err := os.MkdirAll(s.Data, 0o700); err != nil {
			return err
		}
		path := filepath.Join(s.Data, ticketName)
		if err := os.WriteFile(path, []byte(s.Join+"\n"), 0o600); err != nil {
			return err
		}
		args = append(args, "--join", "@"+path)
	}
	x, err := m.CreateService(Name, s.Program, mgr.Config{
		StartType: mgr.StartAutomatic, ServiceStartName: localService,
		DisplayName: "Covey peer", Description: "Runs commands for the cluster that this machine is a peer of.",
	}, args...)
	if errors.Is(err, windows.ERROR_SERVICE_EXISTS) {
		return api.Errorf(api.Conflict, "there is such a service already; `peer service uninstall` removes it")
	}
	if err != nil {
		return err
	}
	defer x.Close()
	again := []mgr.RecoveryAction{{Type: mgr.ServiceRestart, Delay: time.Second}}
	if err := errors.Join(x.SetRecoveryActions(again, 86400), x.SetRecoveryActionsOnNonCrashFailures(true)); err != nil {
		return err
	}
	return x.Start()
}

// Uninstall implements Manager.
func (services) Uninstall(s Spec) error {
	return with(s, func(x *mgr.Service) error {
		_, _ = x.Control(svc.Stop) // it may not run
		return x.Delete()
	})
}

// Status implements Manager.
func (services) Status(s Spec) (text string, err error) {
	err = with(s, func(x *mgr.Service) error {
		now, err := x.Query()
		text = map[svc.State]string{
			svc.Stopped: "stopped", svc.StartPending: "starting", svc.StopPending: "stopping", svc.Running: "running", svc.Paused: "paused",
		}[now.State]
		return err
	})
	return text, err
}
