//go:build unix

package runner

import "strings"

// posixShell runs a line with /bin/sh, which finds COVEY_… in its environment.
func posixShell(line string, braces bool, item string) []string {
	if braces {
		line = strings.ReplaceAll(line, "{}", "'"+strings.ReplaceAll(item, "'", `'\''`)+"'")
	}
	return []string{"/bin/sh", "-c", line}
}
