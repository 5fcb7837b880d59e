package shell

import (
	"strings"
	"testing"
)

func TestAMarkBecomesAReferenceQuotedAsItsPlaceNeeds(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"echo plain", "echo plain"},
		{"echo {}", `echo "${V}"`},
		{`echo "{}"`, `echo "${V}"`},
		{`echo "a {} b"c{}`, `echo "a ${V} b"c"${V}"`},
		{`echo 'a '{}' b'`, `echo 'a '"${V}"' b'`},
		{`echo "it's {}"`, `echo "it's ${V}"`},
		{`echo 'say "'{}`, `echo 'say "'"${V}"`},
		{`echo \"{}`, `echo \""${V}"`},
		{`echo "\"{}"`, `echo "\"${V}"`},
		{`echo \{} {}`, `echo \{} "${V}"`},
		{`echo "$(basename {}) {}"`, `echo "$(basename "${V}") ${V}"`},
		{`echo "$(echo "{}")"`, `echo "$(echo "${V}")"`},
		{`(cd {}; ls) > {}`, `(cd "${V}"; ls) > "${V}"`},
		{`case {} in a) echo {};; esac`, `case "${V}" in a) echo "${V}";; esac`},
		{`echo $((1 + (2))) {}`, `echo $((1 + (2))) "${V}"`},
		{`echo ${x:-y} {}`, `echo ${x:-y} "${V}"`},
		{"echo a # don't {}\necho {}", "echo a # don't {}\necho \"${V}\""},
		{"echo a#'b' {}", `echo a#'b' "${V}"`},
		{"echo `date` {}", "echo `date` \"${V}\""},
	} {
		if got, err := Fill(c.line, "V"); err != nil || got != c.want {
			t.Errorf("Fill(%q) = %q, %v; want %q", c.line, got, err, c.want)
		}
	}
}

func TestAMarkWhereAReferenceWouldNotBeRightIsRefused(t *testing.T) {
	for line, where := range map[string]string{
		`echo 'a {}'`:                         "inside single quotes",
		"echo `basename {}`":                  "inside backquotes",
		"echo \"`echo \\`echo {}\\``\"":       "inside backquotes",
		"cat <<E\n{}\nE":                      "behind a here-document",
		`echo $'\'{}'`:                        "behind $'…'",
		`echo ${x:-{}}`:                       "inside ${ }",
		`echo $(({} + 1))`:                    "inside ${ } or $(( ))",
		`echo ${x:-"a"} {}`:                   "behind quotes inside ${ }",
		`echo $(case x in a) echo {};; esac)`: "behind a case inside parentheses",
		`echo 'never closed {}`:               "inside single quotes",
	} {
		got, err := Fill(line, "V")
		if err == nil || !strings.Contains(err.Error(), where) || !strings.Contains(err.Error(), `"$V"`) {
			t.Errorf("Fill(%q) = %q, %v; want a refusal that says %q and what to write", line, got, err, where)
		}
	}
}
