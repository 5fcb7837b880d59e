package taskstate

import "testing"

func TestFoldersAreNamedByTheNumbersOfAnArrayAndElseBySlot(t *testing.T) {
	for want, jobs := range map[Folders][]Job{
		FoldersByItem: {{Count: 3, Numbered: true}, {Count: 1, Numbered: true, First: 7}, {Count: 2, Each: []string{"01", "3"}}},
		FoldersBySlot: {{Count: 2}, {Count: 1, Each: []string{"a"}}, {Count: 2, Each: []string{"1", "1"}}, {Count: 2, Each: []string{"1", ""}}, {Count: 1, Matrix: []Axis{{Name: "a", Values: []string{"1"}}}}},
		NoFolders:     {{Count: 1}},
	} {
		for _, j := range jobs {
			if got := j.Folders(); got != want {
				t.Errorf("%v of %+v, not %v", got, j, want)
			}
		}
	}
}

func TestTasksOfAnArrayAreNamedByItemWhereTheirSlotsHaveOtherNumbers(t *testing.T) {
	for want, j := range map[string]Job{
		"j.item=1.3": {Count: 3, Numbered: true},
		"j.item=9.3": {Count: 2, Each: []string{"1", "9"}},
		"":           {Count: 2, Each: []string{"1", "2"}},
	} {
		if got := j.Named()(Task("j", 2, 3)); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
	for _, j := range []Job{{Count: 3, Numbered: true, First: 1}, {Count: 2}, {Count: 2, Each: []string{"a", "b"}}} {
		if got := j.Named()(Task("j", 2, 3)); got != "" {
			t.Error(got)
		}
	}
}
