package clinic

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/doctor"
	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/trust/policy"
)

// Stopped tells of a data folder that no peer runs with, or none that answers: what can be seen
// without it. It changes nothing there, but for a file that it writes to try the disk and removes.
// Root may look for the one who would run it.
func Stopped(dir, version string) api.Checkup {
	const why = "no peer answers that could say"
	f := doctor.Facts{
		Dir: dir, Running: doctor.Is(false), Faults: faults(dir), Folder: folder(dir),
		TCP: doctor.NotTried[doctor.Reach](why), UDP: doctor.NotTried[doctor.Reach](why), NAT: doctor.NotTried[doctor.NAT](why), Links: doctor.NotTried[doctor.Links](why),
		Clock: doctor.NotTried[[]doctor.Skew](why), Limits: doctor.NotTried[doctor.Limits](why), Cgroup: doctor.NotTried[doctor.Cgroup](why), LAN: doctor.NotTried[doctor.LAN](why),
		Versions: doctor.NotTried[doctor.Versions](why), Voters: doctor.NotTried[doctor.Voters](why), Names: doctor.NotTried[[]string](why), Elections: doctor.NotTried[int](why),
		Troubles: doctor.NotTried[doctor.Troubles](why),
	}
	if d, ok := f.Folder.Get(); ok && os.Geteuid() == 0 {
		d.User = d.Owner
		f.Folder = doctor.Is(d)
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		const none = "there is no data folder"
		f.Sync, f.Room, f.Folder = doctor.NotTried[doctor.Sync](none), doctor.NotTried[doctor.Room](none), doctor.NotTried[doctor.Folder](none)
	} else {
		f.Sync = (&disk{dir: dir}).probe(false)
		f.Room = within(patience, func() doctor.Known[doctor.Room] {
			return room(func() (supervise.Room, error) { return supervise.RoomOf(dir) })
		})
	}
	return api.Checkup{Version: version, Findings: doctor.Judge(f), AsOf: time.Now().UTC()}
}

// Files of a data folder that are looked at. What is in them belongs to other packages, which make
// them; here they are only read.
const (
	keyFile    = "identity.key"
	tokensFile = "tokens"
)

// faults are what is wrong with single files of a folder. What is not there is not wrong.
func faults(dir string) (out []api.Finding) {
	look := func(check, name string, read func(path string) error, text, do string) {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err := read(path); err != nil {
			out = append(out, api.Finding{Check: check, Result: api.FindingFail, Text: fmt.Sprintf(text, err), Do: fmt.Sprintf(do, path)})
		}
	}
	look("key", keyFile, func(path string) error {
		_, err := p2p.LoadIdentity(path)
		return err
	}, "its key cannot be used: %v", "bring %s back from a backup; without one, come back as another peer: `peer up --new-identity --join TICKET`")
	look("policy", policy.FileName, func(path string) error {
		b, err := os.ReadFile(path)
		if err == nil {
			_, err = policy.Read(b)
		}
		return err
	}, "the policy of this machine cannot be read: %v", "`peer trust edit`: the file is %s")
	look("tokens", tokensFile, func(path string) error {
		b, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(b, &[]struct{}{})
		}
		return err
	}, "the tokens of programs cannot be read, so that none is let in: %v", "remove %s, start the peer again, and make new ones: `peer token create`")
	return out
}
