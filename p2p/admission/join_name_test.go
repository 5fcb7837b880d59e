package admission

import "testing"

func TestANewcomerWhoseNameHidesSomethingIsRefused(t *testing.T) {
	for name, ok := range map[string]bool{"wren": true, "Küche 2": true, "": true, "a\x1b[2J": false, "a\nb": false, "a\u202eb": false} {
		if err := (JoinRequest{Name: name}).Check(); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}
