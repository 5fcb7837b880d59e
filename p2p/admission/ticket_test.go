package admission_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/coveyproject/covey/p2p/admission"

	"pgregory.net/rapid"
)

const somePeer = "12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA"

func someTicket() admission.Ticket {
	return admission.Ticket{
		ID: "abcd2345", Secret: []byte("0123456789abcdef"), Cluster: cluster, Roles: admission.AllRoles(), Expires: 1_800_000_000_000,
		Addrs: []admission.PeerAddr{
			{ID: somePeer, Addrs: []string{"/ip4/192.168.1.20/tcp/26839", "/ip4/192.168.1.20/udp/26839/quic-v1"}},
			{ID: "a peer with a plain name", Addrs: []string{"/dns4/box.example.org/tcp/26839", "not a multiaddr"}},
		},
	}
}

func TestATicketIsReadAsItWasWritten(t *testing.T) {
	want := someTicket()
	s := want.String()
	if !strings.HasPrefix(s, "covey1") || strings.ContainsAny(s, " \n") {
		t.Fatalf("not one line that begins with covey1: %q", s)
	}
	for what, spelt := range map[string]string{
		"as it is": s, "in capitals": strings.ToUpper(s), "wrapped and indented": "  " + s[:40] + "\r\n   " + s[40:] + "\n",
	} {
		got, err := admission.ParseTicket(spelt)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v", what, got, err)
		}
	}
	if n := len(s); n > 500 {
		t.Errorf("a ticket for two peers takes %d characters", n)
	}
}

func TestAnyTicketSurvivesItsSpelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := admission.Ticket{
			ID: rapid.StringMatching(`[a-z2-7]{8}`).Draw(t, "id"), Secret: rapid.SliceOfN(rapid.Byte(), 16, 20).Draw(t, "secret"),
			Cluster: rapid.StringMatching(`[a-z2-7]{16}`).Draw(t, "cluster"), Expires: rapid.Int64().Draw(t, "expires"),
		}
		for range rapid.IntRange(0, 5).Draw(t, "peers") {
			p := admission.PeerAddr{ID: rapid.OneOf(rapid.Just(somePeer), rapid.String()).Draw(t, "peer")}
			for range rapid.IntRange(0, 3).Draw(t, "addrs") {
				p.Addrs = append(p.Addrs, rapid.OneOf(rapid.SampledFrom([]string{"/ip6/::1/tcp/1", "/ip4/1.2.3.4/udp/9/quic-v1"}), rapid.String()).Draw(t, "addr"))
			}
			want.Addrs = append(want.Addrs, p)
		}
		got, err := admission.ParseTicket(want.String())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
	})
}

func TestACutTicketIsSaidToBeCut(t *testing.T) {
	s := someTicket().String()
	for n := 1; n < len(s); n++ {
		_, err := admission.ParseTicket(s[:n])
		if !errors.Is(err, admission.ErrTruncated) {
			t.Fatalf("cut to %d of %d: %v, want ErrTruncated", n, len(s), err)
		}
	}
}

func TestEveryMistypedCharacterIsFound(t *testing.T) {
	s := someTicket().String()
	for i := len("covey1"); i < len(s); i++ {
		for _, c := range "a7z" {
			if rune(s[i]) == c {
				continue
			}
			_, err := admission.ParseTicket(s[:i] + string(c) + s[i+1:])
			if !errors.Is(err, admission.ErrMistyped) && (i > 12 || !errors.Is(err, admission.ErrTruncated)) { // the length comes first
				t.Fatalf("%q at %d: %v, want ErrMistyped", c, i, err)
			}
		}
	}
}

func TestABadTicketIsExplained(t *testing.T) {
	s := someTicket().String()
	for in, want := range map[string]struct {
		err  error
		says string
	}{
		"":                                    {admission.ErrNotTicket, "it is empty; make one with `peer ticket`"},
		"/ip4/10.0.0.1/tcp/26839/p2p/12D3":    {admission.ErrNotTicket, `one line that begins with "covey1"`},
		"covey2abcdef":                        {admission.ErrNotTicket, "update peer on this machine"},
		"coveyjoin":                           {admission.ErrNotTicket, `one line that begins with "covey1"`},
		s[:20] + "0" + s[21:]:                 {admission.ErrMistyped, `'0' at character 21 never occurs`},
		s[:20] + "é" + s[21:]:                 {admission.ErrMistyped, `'é' at character 21 never occurs`},
		s + "aaaa":                            {admission.ErrMistyped, "4 characters too many"},
		s + s:                                 {admission.ErrMistyped, "never occurs"},
		s[:30] + "qq" + s[32:]:                {admission.ErrMistyped, "checksum does not fit"},
		s[:len(s)-10]:                         {admission.ErrTruncated, "its end is missing"},
		"covey1" + strings.Repeat("a", 1<<15): {admission.ErrNotTicket, "too long"},
	} {
		_, err := admission.ParseTicket(in)
		if !errors.Is(err, want.err) || !strings.Contains(err.Error(), want.says) {
			t.Errorf("%.40q: %v; want %v that says %q", in, err, want.err, want.says)
		}
	}
}

func TestATicketWithoutASecretIsNone(t *testing.T) {
	tk := someTicket()
	tk.Secret = nil
	if _, err := admission.ParseTicket(tk.String()); !errors.Is(err, admission.ErrNotTicket) {
		t.Errorf("got %v, want ErrNotTicket", err)
	}
}

func TestSecretsAreRandomAndSpelt(t *testing.T) {
	a, b := admission.NewSecret(), admission.NewSecret()
	if bytes.Equal(a, b) || len(a) != 16 || bytes.Equal(admission.TicketKey(a), admission.TicketKey(b)) {
		t.Fatalf("secrets %x and %x", a, b)
	}
	got, err := admission.ParseSecret(" " + strings.ToUpper(admission.SecretText(a)) + "\n")
	if err != nil || !bytes.Equal(got, a) {
		t.Errorf("got %x, %v; want %x", got, err, a)
	}
	for in, says := range map[string]string{"": "0 characters", "abc": "3 characters", "0123456789": "not an invite's secret", someTicket().String(): "--join"} {
		if _, err := admission.ParseSecret(in); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.20q: %v, want one that says %q", in, err, says)
		}
	}
	if id, c := admission.NewTicketID(), admission.NewClusterID(); len(id) != 8 || len(c) != 16 {
		t.Errorf("ids %q and %q", id, c)
	}
}

func FuzzParseTicket(f *testing.F) {
	s := someTicket().String()
	f.Add(s)
	f.Add(s[:33])
	f.Add("covey1aaaa")
	f.Fuzz(func(t *testing.T, in string) {
		tk, err := admission.ParseTicket(in)
		if err != nil {
			return
		}
		again, err := admission.ParseTicket(tk.String())
		if err != nil || again.Cluster != tk.Cluster || !bytes.Equal(again.Secret, tk.Secret) || len(again.Addrs) != len(tk.Addrs) {
			t.Fatalf("there and back: %+v, %+v (%v)", tk, again, err)
		}
	})
}
