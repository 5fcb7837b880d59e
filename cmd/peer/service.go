package main

import (
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/cmd/peer/service"
	"github.com/coveyproject/covey/node"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p/admission"
)

const serviceLong = `Have this machine's system start the peer and keep it: a unit of systemd (Linux), an agent or daemon
of launchd (macOS), a service of Windows.

Without --system it is yours: it runs as you, with your files, and goes on when you log out (Linux).
With --system it is the machine's: on Linux it runs as the user covey, with its data in
/var/lib/covey, on macOS as who typed sudo, on Windows, where there is no other, as LocalService.

It goes by what ` + "`peer up`" + ` was told before, in peer.yaml in the data folder; on Linux also by lines
like PEER_NAME=attic in ~/.config/covey/peer.env, or /etc/covey/peer.env.`

func serviceCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "service",
		Short: "Have the system start this peer and keep it",
		Long:  serviceLong,
		Example: `  peer service install                            yours; takes over from a peer that runs
  peer service install --join covey1…             … of a cluster that there is
  sudo peer service install --system              the machine's
  sudo peer --data /var/lib/covey status          and how one asks it
  peer service status
  peer service uninstall                          what it kept stays: peer leave first, to be gone`,
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(serviceInstall(c), serviceUninstall(c), serviceStatus(c))
	return cmd
}

func serviceInstall(c *cli) *cobra.Command {
	var (
		system bool
		cfg    node.Config
	)
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Make the peer a service and start it",
		Long: `Make the peer a service, start it, and have it started with the system or with you. A peer that runs
with its data folder is ended first and comes back as the service; on Linux its tasks go on.`,
		Example: "  peer service install\n  ssh other peer ticket | sudo peer service install --system --join -",
		Args:    exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := noEmptyDoor(cmd); err != nil {
				return err
			}
			if err := takeSecrets(&cfg, c.In); err != nil {
				return err
			}
			if cfg.Join != "" {
				if _, err := admission.ParseTicket(cfg.Join); err != nil {
					return api.Errorf(api.Usage, "--join: %v", err)
				}
			}
			m, s, err := c.service(cmd, system)
			if err != nil {
				return err
			}
			s.Join = cfg.Join
			if _, err := m.Status(s); err != nil && api.AsError(err).Code != api.NotFound {
				return err // before anything that runs is ended
			}
			if _, err := c.client().Status(cmd.Context()); err == nil {
				fmt.Fprintln(c.Err, "peer: a peer runs with this data folder; it is ended and comes back as the service")
				if err := c.client().Down(cmd.Context()); err != nil {
					return err
				}
				if err := awaitGone(cmd.Context(), c.data, c.client()); err != nil {
					return err
				}
			}
			if err := m.Install(s); err != nil {
				return err
			}
			as := ""
			if system && runtime.GOOS == "linux" { // the folder is the user covey's
				as = "sudo "
			}
			fmt.Fprintf(c.Err, "peer: installed and started. How it is: %speer --data %s status\n", as, shellWord(s.Data))
			return nil
		},
	}
	serviceFlag(cmd, &system)
	cmd.Flags().StringVar(&cfg.Join, "join", "", "the `TICKET` of the cluster to join; - reads it from stdin, @FILE from a file")
	return cmd
}

func serviceUninstall(c *cli) *cobra.Command {
	var system bool
	cmd := &cobra.Command{
		Use:     "uninstall",
		Short:   "Stop the service and remove it; what the peer kept stays",
		Example: "  peer service uninstall",
		Args:    exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, s, err := c.service(cmd, system)
			if err != nil {
				return err
			}
			if err := m.Uninstall(s); err != nil {
				return err
			}
			fmt.Fprintf(c.Err, "peer: the service is gone; what the peer kept is in %s\n", s.Data)
			return nil
		},
	}
	serviceFlag(cmd, &system)
	return cmd
}

func serviceStatus(c *cli) *cobra.Command {
	var system bool
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "What the system says of the service",
		Long:    "What the system says of the service: for how the peer is, see `peer status`.",
		Example: "  peer service status --system",
		Args:    exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, s, err := c.service(cmd, system)
			if err != nil {
				return err
			}
			text, err := m.Status(s)
			if err == nil {
				fmt.Fprintln(c.Out, text)
			}
			return err
		},
	}
	serviceFlag(cmd, &system)
	return cmd
}

func serviceFlag(cmd *cobra.Command, system *bool) {
	cmd.Flags().BoolVar(system, "system", false, "the machine's service, not yours; takes root")
}

// service is what manages services here, and the one that is meant. The data folder becomes the
// service's.
func (c *cli) service(cmd *cobra.Command, system bool) (service.Manager, service.Spec, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, service.Spec{}, fmt.Errorf("find this program: %w", err)
	}
	around := service.System{
		Home: userHome(), UID: os.Getuid(), Run: service.Exec,
		Say: func(text string) { fmt.Fprintf(c.Err, "peer: %s\n", text) },
	}
	var m service.Manager
	typed := cmd.Flags().Changed("data")
	s := service.Spec{Program: exe, System: system}
	switch runtime.GOOS {
	case "linux":
		m = service.Systemd{System: around}
		if system && typed && filepath.Clean(c.data) != service.SystemData {
			return nil, s, api.Errorf(api.Usage, "the machine's service keeps what it has in %s: leave --data out", service.SystemData)
		}
		if system {
			c.data = service.SystemData
		}
	case "darwin":
		m = service.Launchd{System: around}
		if system {
			s.User = os.Getenv("SUDO_USER")
			u, err := user.Lookup(s.User)
			if err != nil {
				return nil, s, api.Errorf(api.Refused, "the machine's service runs as who typed sudo, not as root: `sudo peer service %s --system`", cmd.Name())
			}
			if !typed {
				c.data = filepath.Join(u.HomeDir, "Library", "Application Support", "covey")
			}
		}
	case "windows":
		m, s.System = service.Windows(), true
		if !typed {
			c.data = filepath.Join(os.Getenv("SystemRoot"), "ServiceProfiles", "LocalService", "AppData", "Local", "covey")
		}
	default:
		return nil, s, api.Errorf(api.Failed, "services of %s are not known here: have what starts programs run `peer up`, in the foreground", runtime.GOOS)
	}
	s.Data, err = filepath.Abs(c.data)
	return m, s, err
}

// notify tells systemd how this peer is; that it cannot be told is worth a line.
func notify(log *slog.Logger, state string) {
	if err := service.Notify(state); err != nil {
		log.Warn("systemd cannot be told how this peer is", "state", state, "error", err)
	}
}

// serviceLog is peer.log of a peer that nobody's terminal or log belongs to.
func serviceLog(data string) (*os.File, error) {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, err
	}
	return freshLog(filepath.Join(data, logName))
}
