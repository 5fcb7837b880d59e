package service

import (
	"encoding/xml"
	"fmt"
	"path/filepath"
	"strings"
)

// Where the system's service has its things on Linux, in packages too.
const (
	Name       = "covey"          // of the service, and on Linux of the user that it runs as
	SystemData = "/var/lib/covey" // its data folder
	SystemEnv  = "/etc/covey/peer.env"
	Label      = "covey.peer" // what launchd calls it
)

// Spec is one service.
type Spec struct {
	Program string // the absolute path of peer
	Data    string // the data folder, absolute
	System  bool   // of the machine, not of one user
	Env     string // Linux: a file with lines PEER_FLAG=VALUE, which need not be there
	User    string // macOS, for the machine: as whom it runs
	Join    string // a ticket, or ""; secret
}

// Unit is the unit of systemd for a service.
//
// Tasks and their supervisor outlive a restart (KillMode), are not ended with a task that the
// kernel killed for its memory (OOMPolicy), and are given nothing of the unit's that would change
// them: no sandbox, no other user at each start. The score for the kernel's choice is the peer's
// alone: its supervisor goes back to 0, and so do tasks. There is no limit to how long a start
// takes: a peer that waits for its cluster is at work. One that was told to end (`peer down`, `peer
// leave`) stays ended, and so does one whose flags are wrong.
func Unit(s Spec) string {
	var own, score, wanted string
	if s.System {
		own = fmt.Sprintf("User=%s\nStateDirectory=%s\nStateDirectoryMode=0700\n", Name, Name)
		score, wanted = "OOMScoreAdjust=-500\n", "multi-user.target"
	} else {
		wanted = "default.target"
	}
	network := ""
	if s.System { // a user's manager knows no such target
		network = "Wants=network-online.target\nAfter=network-online.target\n"
	}
	return `[Unit]
Description=Covey peer
Documentation=man:peer(1)
` + network + `StartLimitIntervalSec=0

[Service]
Type=notify
ExecStart=` + quoted(s.Program) + ` up
Environment=` + quoted("PEER_DATA="+s.Data) + `
EnvironmentFile=-` + specifiers(s.Env) + `
` + own + `Restart=on-failure
RestartSec=1
RestartPreventExitStatus=2
TimeoutStartSec=infinity
KillMode=process
Delegate=cpu memory pids io
OOMPolicy=continue
` + score + `LimitNOFILE=65536
TasksMax=infinity

[Install]
WantedBy=` + wanted + "\n"
}

// quoted is a word of a unit.
func quoted(word string) string {
	if strings.ContainsAny(word, " \t\"'\\") {
		word = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word) + `"`
	}
	return strings.ReplaceAll(specifiers(word), "$", "$$")
}

// specifiers is text in which systemd replaces nothing.
func specifiers(text string) string { return strings.ReplaceAll(text, "%", "%%") }

// Plist is the property list of launchd for a service. It holds the ticket, if there is one: only
// its owner may read it.
func Plist(s Spec) string {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
`)
	key := func(name, value string) { fmt.Fprintf(&b, "  <key>%s</key>\n  %s\n", name, value) }
	text := func(v string) string {
		var e strings.Builder
		_ = xml.EscapeText(&e, []byte(v)) // a Builder fails never
		return "<string>" + e.String() + "</string>"
	}
	env := "<key>PEER_DATA</key>" + text(s.Data)
	if s.Join != "" {
		env += "<key>PEER_JOIN</key>" + text(s.Join)
	}
	key("Label", text(Label))
	key("ProgramArguments", "<array>"+text(s.Program)+text("up")+"</array>")
	key("EnvironmentVariables", "<dict>"+env+"</dict>")
	if s.User != "" {
		key("UserName", text(s.User))
	}
	key("RunAtLoad", "<true/>")
	key("KeepAlive", "<dict><key>SuccessfulExit</key><false/></dict>") // not after peer down or peer leave
	key("StandardErrorPath", text(filepath.Join(s.Data, "peer.log")))
	b.WriteString("</dict>\n</plist>\n")
	return b.String()
}
