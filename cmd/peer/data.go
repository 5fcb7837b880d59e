package main

import (
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/cmd/peer/service"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
)

// userHome is the user's: the environment names it, or else, where that is not set or relative,
// the machine's list of users. It is "" where neither does.
func userHome() string {
	if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
		return home
	}
	if u, err := user.Current(); err == nil && filepath.IsAbs(u.HomeDir) {
		return u.HomeDir
	}
	return ""
}

// defaultData is the platform's place for state that a program keeps and a person does not edit. It
// is "" where no home is known: a folder below the current one would be another peer's each time.
func defaultData() string {
	home := userHome()
	if d := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(d) && runtime.GOOS != "darwin" && runtime.GOOS != "windows" {
		return filepath.Join(d, "covey")
	}
	if home == "" {
		return ""
	}
	switch runtime.GOOS {
	case "darwin":
		return filepath.Join(home, "Library", "Application Support", "covey")
	case "windows":
		if d := os.Getenv("LocalAppData"); d != "" {
			return filepath.Join(d, "covey")
		}
		return filepath.Join(home, "AppData", "Local", "covey")
	}
	return filepath.Join(home, ".local", "state", "covey")
}

// checkData refuses a data folder that is not named: no home is known, or --data is empty.
func checkData(cmd *cobra.Command, data string) error {
	for c := cmd; c.HasParent(); c = c.Parent() {
		if slices.Contains([]string{"version", "help", "completion"}, c.Name()) {
			return nil
		}
	}
	switch {
	case data != "":
		return nil
	case cmd.Flags().Changed("data"):
		return api.Errorf(api.Usage, "--data: an empty name is no folder")
	}
	return api.Errorf(api.Usage, "no data folder: HOME is not set to an absolute path, and this machine's list of users names no home for you; say which with --data DIR or PEER_DATA")
}

// refuseAnothers refuses to run a peer as root in another user's data folder, or with sudo to make
// one below what belongs to the user who typed it: that user could not use what root writes there.
func refuseAnothers(data string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	at, err := filepath.Abs(data)
	if err != nil {
		return err
	}
	uid, known := ownerOf(filepath.Join(at, "identity.key"))
	if !known {
		for ; !known && at != filepath.Dir(at); at = filepath.Dir(at) {
			uid, known = ownerOf(at)
		}
		known = known && strconv.Itoa(uid) == os.Getenv("SUDO_UID")
	}
	if !known || uid == 0 {
		return nil
	}
	name := "user " + strconv.Itoa(uid)
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		name = u.Username
	}
	return api.Errorf(api.Refused, "the data folder %s belongs to %s, who could not use it any more once root has written there: type `peer up` as %s, without sudo; for a peer that runs as root name a folder of root's own with --data DIR, or type `sudo peer service install --system`", data, name, name)
}

// howToStart is what to do where no peer answers with a data folder. Who looks for the machine's
// service in a folder of their own is not led to found a second cluster. Folders of the machine are
// below root.
func howToStart(root, data string) string {
	if filepath.Clean(data) != defaultData() {
		return client.Start
	}
	if _, err := os.Stat(filepath.Join(root, service.SystemData)); err != nil {
		return client.Start
	}
	const ask = "this machine's service keeps its data in " + service.SystemData + ": ask it with `sudo peer --data " + service.SystemData + " status`"
	if _, err := os.Stat(filepath.Join(data, "roster")); err == nil { // of a peer that comes back to its own cluster
		return client.Start + "; " + ask
	}
	return ask + "; a peer of your own joins it with a ticket of it, `peer up --join TICKET`"
}
