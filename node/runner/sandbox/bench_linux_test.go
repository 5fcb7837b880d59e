package sandbox

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// What a process costs that is kept from more and more, from its start to its end.
func BenchmarkStart(b *testing.B) {
	hidden := b.TempDir()
	own := filepath.Join(hidden, "own")
	if err := os.MkdirAll(own, 0o700); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(hidden, "sock"), nil, 0o600); err != nil {
		b.Fatal(err)
	}
	mounts := Spec{NNP: true, Hide: []string{hidden}, Show: []string{own, filepath.Join(hidden, "sock")}}
	alike, closed, alone := mounts, mounts, mounts
	alike.Alike, closed.Alike = true, true
	closed.Closed, closed.Write = true, []string{own}
	alone.Closed, alone.Write = true, []string{own}
	net := closed
	net.NoNet = true
	for _, c := range []struct {
		name string
		spec *Spec
	}{{"plain", nil}, {"privileges", &Spec{NNP: true}}, {"mounts", &mounts}, {"alike", &alike}, {"closed", &alone}, {"alike-closed", &closed}, {"alike-closed-net", &net}} {
		b.Run(c.name, func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					var pid int
					err := Run(c.spec, nil, func(attr *syscall.SysProcAttr, _ *Space) (err error) {
						pid, err = syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{Dir: "/", Files: []uintptr{0, 1, 2}, Sys: attr})
						return err
					})
					if err != nil {
						b.Error(err)
						return
					}
					if _, err := wait(pid); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
