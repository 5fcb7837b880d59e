package session

import "testing"

func TestAPeerWhoseNameOrLabelsHideSomethingIsRefused(t *testing.T) {
	for _, bad := range []string{"a\x1b[2Jb", "a\nb", "a\x00", "a\u202eb", "a\u200bb"} {
		o := Offer{}
		o.Name = bad
		if o.Check() == nil {
			t.Errorf("the name %q", bad)
		}
		o = Offer{}
		o.Labels = map[string]string{"zone": bad}
		if o.Check() == nil {
			t.Errorf("the label %q", bad)
		}
	}
	o := Offer{}
	o.Name, o.Labels = "Küche 2", map[string]string{"zone": "west"}
	if err := o.Check(); err != nil {
		t.Error(err)
	}
}
