package clinic

import "github.com/coveyproject/covey/node/doctor"

// folder is not looked at: rights are lists there.
func folder(string) doctor.Known[doctor.Folder] {
	return doctor.NotTried[doctor.Folder]("not looked at on windows")
}
