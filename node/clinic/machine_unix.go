//go:build unix

package clinic

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"

	"github.com/coveyproject/covey/node/doctor"
)

// folder looks whose a data folder is, and where.
func folder(dir string) doctor.Known[doctor.Folder] {
	info, err := os.Stat(dir)
	if err != nil {
		return doctor.NotTried[doctor.Folder](err.Error())
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return doctor.NotTried[doctor.Folder]("the system does not tell")
	}
	d := doctor.Folder{Owner: userName(int(st.Uid)), User: userName(os.Geteuid()), Open: info.Mode().Perm()&0o022 != 0, Mode: info.Mode().String()}
	d.FS, d.Network, d.Memory = fileSystem(dir)
	return doctor.Is(d)
}

// userName is the name of a user, or a number that has none.
func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return fmt.Sprint("user ", uid)
}
