package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/gologshim"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coveyproject/covey/cmd/peer/service"
	"github.com/coveyproject/covey/node"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/constraint"
	"github.com/coveyproject/covey/taskstate/jobfile"
	"github.com/coveyproject/covey/taskstate/spell"
)

const upLong = `Make this machine a peer. The first one, without --join or --bootstrap, founds a cluster; the
others join it with a ticket. It stays in the foreground (--detach returns when it is ready) and
keeps its place when it is stopped and started again.

What this machine offers and how it is reached is remembered: a later plain ` + "`peer up`" + ` goes by the
flags that were typed before, which are in peer.yaml in the data folder. Edit it, or remove a line
to go back to that flag's default. A typed flag takes the place of what is remembered; with --once
it does so for this start only.

Every flag has an environment variable: --join is PEER_JOIN, --name is PEER_NAME, and so on. It
goes before peer.yaml, and is not remembered.`

// upFlags are `peer up`'s words; the rest goes straight into a node.Config.
type upFlags struct {
	cpus, memory, disk string
	output             string
	logSize            string
	store              string
	labels             []string
	offers             []string
	gpus               int64
	detach             bool
	verbose            bool
}

func upCommand(c *cli) *cobra.Command {
	var (
		f   upFlags
		cfg node.Config
	)
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Make this machine a peer (the first one founds a cluster)",
		Long:  upLong,
		Example: `  peer up                                            found a cluster, or come back to one
  peer up --join covey1…                             join with a ticket (see peer ticket)
  ssh other peer ticket | peer up --join -           the same, and nobody sees the ticket
  peer up --bootstrap host:26839 --invite SECRET     the same by hand
  peer up --name left --label zone=west --cpus 2 --memory 4GiB --detach
  peer up --gpus 2 --offer license=5                 what else jobs may ask for
  peer up --data ~/second                            a second peer on this machine`,
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := noEmptyDoor(cmd); err != nil {
				return err
			}
			if err := refuseAnothers(c.data); err != nil {
				return err
			}
			memory, err := recallUp(c.data, cmd.Flags())
			if err != nil {
				return err
			}
			cfg.Data = c.data
			cfg.Version = version()
			if err := f.into(&cfg); err != nil {
				return err
			}
			if !f.detach {
				drowse(cmd.Context()) // first: it may begin this program anew, with all that it was given
			}
			if err := takeSecrets(&cfg, c.In); err != nil {
				return err
			}
			if f.detach {
				return upDetached(cmd.Context(), c, &cfg, memory)
			}
			return service.Run(cmd.Context(), func(ctx context.Context) error { return f.run(ctx, c, cfg, memory) })
		},
	}
	f.register(cmd.Flags(), &cfg)
	return cmd
}

// register adds the flags: what needs no look at it goes straight into cfg.
func (f *upFlags) register(fl *pflag.FlagSet, cfg *node.Config) {
	fl.StringVar(&cfg.Join, "join", "", "the `TICKET` of the cluster to join (from `peer ticket` there); - reads it from stdin, @FILE from a file")
	fl.StringArrayVar(&cfg.Bootstrap, "bootstrap", nil, "`ADDR` of a peer to join through: a multiaddr with /p2p/ID, or host:port (repeatable)")
	fl.StringVar(&cfg.Invite, "invite", "", "the ticket's `SECRET`, with --bootstrap; - and @FILE as above")
	fl.BoolVar(&cfg.Open, "open", false, "found a cluster that anybody who can reach it may join")
	fl.StringArrayVar(&cfg.Listen, "listen", nil, "listen on `ADDR`: a multiaddr or host:port (repeatable; default every address, port 26839)")
	fl.StringArrayVar(&cfg.Announce, "announce", nil, "tell others this `ADDR` too (repeatable)")
	fl.StringVar(&cfg.Name, "name", "", "this peer's `NAME` (default the one it had, at first the host's)")
	fl.StringArrayVar(&f.labels, "label", nil, "a label `K=V` (repeatable)")
	fl.StringVar(&f.cpus, "cpus", "", "offer `N` CPUs (default all)")
	fl.StringVar(&f.memory, "memory", "", "offer memory of this `SIZE` (default all)")
	fl.StringVar(&f.disk, "disk", "", "offer disk of this `SIZE`; 0: none (default what is free\nwhen it starts, less a tenth of the disk)")
	fl.StringVar(&f.output, "keep-output", "", "files of finished jobs may take `SIZE` here, the oldest go first,\nand copies of what tasks print elsewhere a sixteenth of it (default 16GiB)")
	fl.StringVar(&f.store, "store", "", "keep copies of files for others in `SIZE` of the disk; 0: none\n(default a quarter of the disk, or what is free, less a tenth of it)")
	fl.StringVar(&f.logSize, "keep-log", "", "peer.log may take `SIZE`, and what it held before as much (default 8MiB)")
	fl.Int64Var(&f.gpus, "gpus", 0, "offer `N` gpus: short for --offer gpus=N")
	fl.StringArrayVar(&f.offers, "offer", nil, "offer a number of something jobs ask for, `NAME=N` (repeatable)")
	fl.StringVar(&cfg.TaskUser, "task-user", "", "have tasks run as this `USER` of the machine, where policy.yaml\ndoes not say as whom; takes root (default one for each submitter, as root)")
	fl.StringVar(&cfg.API.Addr, "api", "", "let programs with a token ask over TCP at this `ADDR`, HOST:PORT (see peer token)")
	fl.StringVar(&cfg.API.Cert, "api-cert", "", "with --api: the certificate for TLS, a `FILE` in PEM; beyond this machine there must be one")
	fl.StringVar(&cfg.API.Key, "api-key", "", "with --api: the certificate's key, a `FILE` in PEM")
	fl.BoolVar(&cfg.NoMDNS, "no-mdns", false, "do not look for peers in the local network")
	fl.BoolVarP(&f.detach, "detach", "d", false, "return when it is ready; peer down stops it")
	fl.BoolVar(&cfg.NewIdentity, "new-identity", false, "this machine or its data folder is a copy of another peer's: be a peer of its own (with --join)")
	fl.BoolVar(&cfg.Moved, "moved", false, "the data folder was moved, and this is its only and newest copy:\nlet this voter vote although another voter is gone; for this start")
	fl.Bool("once", false, "do not remember the flags of this start")
	fl.BoolVar(&f.verbose, "verbose", false, "log what it does")
	fl.BoolVar(&cfg.Testnet, "testnet", false, "let the API cut this peer off from others")
	_ = fl.MarkHidden("testnet")
}

// noEmptyDoor refuses --join and its like with nothing in them: most often a shell's variable is
// not set, and to found a cluster instead of joining one is not what was meant.
func noEmptyDoor(cmd *cobra.Command) error {
	for _, name := range []string{"join", "invite", "bootstrap"} {
		f := cmd.Flags().Lookup(name)
		if f == nil {
			continue // only one of the commands has them all
		}
		words := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			words = list.GetSlice()
		}
		if f.Changed && slices.ContainsFunc(words, func(w string) bool { return strings.TrimSpace(w) == "" }) {
			return api.Errorf(api.Usage, "--%s is empty: is a variable not set? To found a cluster of its own, leave it out", name)
		}
	}
	return nil
}

func (f *upFlags) into(cfg *node.Config) (err error) {
	if f.cpus != "" {
		if cfg.MilliCPU, err = spell.CPUs(f.cpus); err != nil {
			return api.Errorf(api.Usage, "--cpus: %v", err)
		}
	}
	if f.memory != "" {
		if cfg.Memory, err = jobfile.ParseSize(f.memory); err != nil {
			return api.Errorf(api.Usage, "--memory: %v", err)
		}
	}
	if f.disk != "" {
		if cfg.Disk, err = jobfile.ParseSize(f.disk); err != nil {
			return api.Errorf(api.Usage, "--disk: %v", err)
		}
		if cfg.Disk == 0 {
			cfg.Disk = -1
		}
	}
	if f.output != "" {
		if cfg.KeepOutput, err = jobfile.ParseSize(f.output); err != nil {
			return api.Errorf(api.Usage, "--keep-output: %v", err)
		}
	}
	if f.store != "" {
		if cfg.Store, err = jobfile.ParseSize(f.store); err != nil {
			return api.Errorf(api.Usage, "--store: %v", err)
		}
		if cfg.Store == 0 {
			cfg.Store = -1
		}
	}
	if cfg.Others, err = f.counts(); err != nil {
		return err
	}
	if err := checkTaskUser(cfg.TaskUser); err != nil {
		return err
	}
	for _, l := range f.labels {
		k, v, ok := strings.Cut(l, "=")
		if !ok || k == "" {
			return api.Errorf(api.Usage, "--label %q: expected K=V", l)
		}
		if err := constraint.CheckLabel(k); err != nil {
			return api.Errorf(api.Usage, "--label %q: %v", l, err)
		}
		if cfg.Labels == nil {
			cfg.Labels = map[string]string{}
		}
		cfg.Labels[k] = v
	}
	return nil
}

// checkTaskUser says why tasks cannot run as a user.
func checkTaskUser(name string) error {
	if name == "" {
		return nil
	}
	u, err := user.Lookup(name)
	switch {
	case err != nil:
		return api.Errorf(api.Usage, "--task-user: this machine has no user %q", name)
	case u.Uid == "0":
		return api.Errorf(api.Usage, "--task-user %s: tasks that are root own the machine; name a user like others", name)
	case os.Geteuid() != 0:
		return api.Errorf(api.Usage, "--task-user %s: only root can have tasks run as another user; start the peer as root, or leave it out", name)
	}
	return nil
}

// counts reads --offer and --gpus.
func (f *upFlags) counts() (taskstate.Counts, error) {
	m := map[string]int64{}
	words := f.offers
	if f.gpus != 0 {
		words = append(slices.Clip(words), fmt.Sprintf("%s=%d", taskstate.GPUs, f.gpus))
	}
	for _, w := range words {
		name, text, _ := strings.Cut(w, "=")
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return "", api.Errorf(api.Usage, "--offer %q: expected NAME=N with a whole number from 1, as in gpus=2", w)
		}
		if _, twice := m[name]; twice {
			return "", api.Errorf(api.Usage, "--offer %q: %s is offered twice", w, name)
		}
		m[name] = n
	}
	counts := taskstate.CountsOf(m)
	if err := counts.Check(); err != nil {
		return "", api.Errorf(api.Usage, "--offer: %v", err)
	}
	return counts, nil
}

func (f *upFlags) run(ctx context.Context, c *cli, cfg node.Config, memory *upMemory) error {
	ctx, cancel := untilInterrupted(ctx)
	defer cancel()
	if service.Inside() { // nobody sees what it says
		log, err := serviceLog(c.data)
		if err != nil {
			return err
		}
		defer log.Close()
		c.messagesTo(log)
		c.Out = log
	}
	if err := c.capLog(f.logSize); err != nil {
		return err
	}
	level, verbose := slog.LevelWarn, f.verbose
	if verbose {
		level = slog.LevelDebug
	}
	cfg.Log = slog.New(slog.NewTextHandler(c.Err, &slog.HandlerOptions{Level: level}))
	if verbose {
		gologshim.SetDefaultHandler(cfg.Log.Handler())
	} else {
		gologshim.SetDefaultHandler(slog.DiscardHandler) // what libp2p says to itself explains nothing to a person
	}
	cfg.Say = func(s string) { fmt.Fprintf(c.Err, "peer: %s\n", s) }
	cfg.Ending = func(limit time.Duration) {
		cancel() // Ctrl-C is not heard here any more
		fmt.Fprintf(c.Err, "peer: it waits up to %s for others to take over what it decides and tells; Ctrl-C ends it at once, and nothing accepted is lost\n", limit)
	}
	n, err := node.New(cfg)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { notify(cfg.Log, "STOPPING=1") })()
	return n.Run(ctx, func(s api.Status) {
		notify(cfg.Log, "READY=1")
		if err := memory.keep(); err != nil {
			fmt.Fprintf(c.Err, "peer: these flags are not remembered for the next start: %v\n", err)
		}
		memory.say(c.Err)
		greet(c, s)
	})
}

// mostKeys is how many keys a greeting shows.
const mostKeys = 5

// greet says what a person needs next.
func greet(c *cli, s api.Status) {
	if c.output != tableFormat {
		_ = writeLine(c.Out, s)
		return
	}
	var all bytes.Buffer
	statusText(&all, s, c.carry)
	_, _ = c.Out.Write(all.Bytes()) // at once: a reader that waits for it gets all of it
	if len(s.Untrusted) > 0 {
		fmt.Fprintln(c.Err, "\nThis machine runs nothing until you say for whom. To let it run what one of these asks for:")
		for _, k := range s.Untrusted[:min(len(s.Untrusted), mostKeys)] {
			fmt.Fprintf(c.Err, "  %s   # %s\n", c.command("trust add "+k.Key), printable(k.Name))
		}
	}
	switch {
	case s.Open:
		fmt.Fprintln(c.Err, "\nTHIS CLUSTER IS OPEN: anybody who can reach one of the addresses above can join it and run commands here.")
		fmt.Fprintf(c.Err, "join from another machine:  peer up --bootstrap %s/p2p/%s\n", first(s.Addrs), s.ID)
	case s.How == "founded":
		fmt.Fprintln(c.Err, "\nnext, here:                 "+c.command("ticket"))
		fmt.Fprintln(c.Err, "then, on another machine:   peer up --join <the ticket>")
	default:
		fmt.Fprintln(c.Err, "\nnext:                       "+c.command("peers"))
	}
}

func first(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}

const (
	// readyLimit bounds how long --detach waits for a child that is not ready and says nothing new.
	readyLimit = 60 * time.Second
	// readySay is when it begins to show what the child says.
	readySay = 5 * time.Second
)

// upDetached starts the same command without --detach in a session of its own and returns when it
// answers.
func upDetached(ctx context.Context, c *cli, cfg *node.Config, memory *upMemory) error {
	if s, err := c.client().Status(ctx); err == nil {
		return api.Errorf(api.Conflict, "a peer already runs with this data folder (%s, process %d); stop it with `peer down`", s.Data, s.PID)
	}
	if err := os.MkdirAll(c.data, 0o700); err != nil {
		return api.Errorf(api.Failed, "cannot make the data folder: %v; choose another with --data", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	logPath := filepath.Join(c.data, logName)
	logFile, err := freshLog(logPath)
	if err != nil {
		return api.Errorf(api.Failed, "cannot write the log: %v", err)
	}
	defer logFile.Close()
	args, secret := handOver(os.Args[1:], cfg)
	child := exec.Command(exe, args...)
	child.Stdin = strings.NewReader(secret)
	child.Stdout, child.Stderr = logFile, logFile
	child.SysProcAttr = ownSession()
	child.Env = append(os.Environ(), "PEER_DETACH=", "PEER_JOIN=", "PEER_INVITE=")
	if err := child.Start(); err != nil {
		return fmt.Errorf("start the peer: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }() // ends with the child, or with this process, which is about to end
	return awaitReady(ctx, c, ended, logPath, memory)
}

func awaitReady(ctx context.Context, c *cli, ended <-chan error, logPath string, memory *upMemory) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit, say := time.NewTimer(readyLimit), time.After(readySay)
	defer limit.Stop()
	said := told{path: logPath}
	for {
		select {
		case err := <-ended:
			text, _ := os.ReadFile(logPath)
			var x *exec.ExitError
			fmt.Fprint(c.Err, string(text))
			if errors.As(err, &x) && x.ExitCode() > 0 {
				if len(bytes.TrimSpace(text)) == 0 { // another `peer up` began a log of its own there
					fmt.Fprintf(c.Err, "peer: the peer ended at once, and %s does not say why: is another one being started with this data folder? See `peer status`\n", logPath)
				}
				return exitError(x.ExitCode())
			}
			return api.Errorf(api.Failed, "the peer ended at once: %v", err)
		case <-limit.C:
			return api.Errorf(api.TimedOut, "the peer is not ready, said nothing new for %s, and goes on trying; %ssee %s", readyLimit, said.last(), logPath)
		case <-say:
			fmt.Fprintln(c.Err, "peer: not ready yet; waiting while it says something (Ctrl-C ends the wait, not the peer)")
			said.show = c.Err
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if s, err := c.client().Status(ctx); err == nil && s.Ready {
				memory.say(c.Err)
				greet(c, s)
				return nil
			}
			if said.more() {
				limit.Reset(readyLimit)
			}
		}
	}
}

// untilInterrupted ends the context at Ctrl-C and when the terminal is closed, unless the peer was
// started to outlive that (nohup); SIGTERM already does (main).
func untilInterrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signal.NotifyContext(ctx, signals...)
}
