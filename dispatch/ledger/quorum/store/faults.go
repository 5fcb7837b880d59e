package store

import "github.com/hashicorp/raft-wal/types"

// faultyDisk asks before every write whether it should fail: Config.Hurt.
type faultyDisk struct {
	types.VFS
	hurt func() error
}

func (d faultyDisk) Create(dir, name string, size uint64) (types.WritableFile, error) {
	if err := d.hurt(); err != nil {
		return nil, err
	}
	f, err := d.VFS.Create(dir, name, size)
	return faultyFile{f, d.hurt}, err
}

func (d faultyDisk) OpenWriter(dir, name string) (types.WritableFile, error) {
	if err := d.hurt(); err != nil {
		return nil, err
	}
	f, err := d.VFS.OpenWriter(dir, name)
	return faultyFile{f, d.hurt}, err
}

type faultyFile struct {
	types.WritableFile
	hurt func() error
}

func (f faultyFile) WriteAt(b []byte, at int64) (int, error) {
	if err := f.hurt(); err != nil {
		n := 0
		if len(b) > 1 { // a disk that fills up takes a part
			n, _ = f.WritableFile.WriteAt(b[:len(b)/2], at)
		}
		return n, err
	}
	return f.WritableFile.WriteAt(b, at)
}

func (f faultyFile) Sync() error {
	if err := f.hurt(); err != nil {
		return err
	}
	return f.WritableFile.Sync()
}
