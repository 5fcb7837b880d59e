// Package service makes a peer a service of its system, for one user or for the machine: a unit of
// systemd, an agent or daemon of launchd, a service of Windows.
//
// The files are made here (Unit, Plist), for `peer service install` and for packages alike; Manager
// has what each system needs done with them. Notify tells systemd how a peer's start goes,
// InService lets a peer be told by Windows to end.
package service
