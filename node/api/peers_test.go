package api_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/coveyproject/covey/node/api"
)

func (f *fake) Peer(_ context.Context, peer string) (api.PeerAnswer, error) {
	return api.PeerAnswer{Peer: api.Peer{ID: peer}}, f.err
}

func (f *fake) SetAvailability(_ context.Context, peer string, a api.Availability) (api.PeerAnswer, error) {
	return api.PeerAnswer{Peer: api.Peer{ID: peer, Availability: a.Availability}}, f.note(fmt.Sprintf("%s %s %g %s", peer, a.Availability, a.Grace, a.Reason))
}

func (f *fake) Draining(_ context.Context, peer string, send func(api.Draining) error) error {
	for n := 2; n >= 0; n-- {
		if err := send(api.Draining{Peer: peer, Left: n}); err != nil {
			return err
		}
	}
	return f.err
}

func TestWhatIsSaidAboutAPeerReachesTheBackend(t *testing.T) {
	b := &fake{}
	c, _, _ := serve(t, b)
	for _, id := range []string{"self", "a b", "ä/ö?x=1#y"} { // whatever a person types
		p, err := c.Peer(t.Context(), id)
		if err != nil || p.Peer.ID != id {
			t.Errorf("%q became %q, %v", id, p.Peer.ID, err)
		}
	}
	p, err := c.SetAvailability(t.Context(), "p/q", api.Availability{Availability: api.Drained, Grace: 1.5, Reason: "why"})
	if err != nil || p.Peer.Availability != "drain" || !slices.Equal(b.said, []string{"p/q drain 1.5 why"}) {
		t.Errorf("%+v %v, said %q", p, err, b.said)
	}
	var left []int
	each := func(d api.Draining) error {
		left = append(left, d.Left)
		return nil
	}
	if err := c.Draining(t.Context(), "x", each); err != nil || !slices.Equal(left, []int{2, 1, 0}) {
		t.Errorf("%v %v", left, err)
	}
	b.err = api.Errorf(api.Conflict, "it was activated")
	if e := api.AsError(c.Draining(t.Context(), "x", each)); e == nil || e.Code != api.Conflict {
		t.Errorf("a drain that somebody ended: %v", e)
	}
}

func (f *fake) SetRoles(_ context.Context, peer string, r api.Roles) (api.PeerAnswer, error) {
	return api.PeerAnswer{Peer: api.Peer{ID: peer, Roles: r.Roles}}, nil
}

func (f *fake) SetLabels(_ context.Context, peer string, l api.Labels) (api.PeerAnswer, error) {
	return api.PeerAnswer{Peer: api.Peer{ID: peer, Labels: l.Set}}, f.note(fmt.Sprintf("%s %v", peer, l.Unset))
}

func TestLabelsReachTheBackend(t *testing.T) {
	b := &fake{}
	c, _, _ := serve(t, b)
	p, err := c.SetLabels(t.Context(), "p", api.Labels{Set: map[string]string{"a": "b"}, Unset: []string{"c"}})
	if err != nil || p.Peer.Labels["a"] != "b" || !slices.Equal(b.said, []string{"p [c]"}) {
		t.Errorf("%+v %v, said %q", p, err, b.said)
	}
}

func (f *fake) Settings(context.Context) (api.SettingsAnswer, error) {
	return api.SettingsAnswer{Settings: api.Settings{Beat: 1}}, f.err
}

func (f *fake) Set(_ context.Context, s api.Settings) (api.SettingsAnswer, error) {
	return api.SettingsAnswer{Settings: s}, f.err
}

func TestSettingsTravelBothWays(t *testing.T) {
	c, _, _ := serve(t, &fake{})
	if a, err := c.Settings(t.Context()); err != nil || a.Settings.Beat != 1 {
		t.Errorf("%+v %v", a, err)
	}
	if a, err := c.Set(t.Context(), api.Settings{Grace: 2.5}); err != nil || a.Settings != (api.Settings{Grace: 2.5}) {
		t.Errorf("%+v %v", a, err)
	}
}
