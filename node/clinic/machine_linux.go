package clinic

import (
	"fmt"
	"syscall"

	"github.com/coveyproject/covey/node/doctor"
)

// Kinds of file systems, as statfs(2) has them. What is not listed is a disk of this machine.
var (
	networked = map[uint32]string{
		0x6969: "nfs", 0x517b: "smb", 0xff534d42: "cifs", 0xfe534d42: "smb2", 0x01021997: "9p", 0x00c36400: "ceph", 0x5346414f: "afs", 0x6b414653: "kafs",
		0x0bd00bd0: "lustre", 0x47504653: "gpfs",
	}
	inMemory = map[uint32]string{0x01021994: "tmpfs", 0x858458f6: "ramfs"}
	onDisk   = map[uint32]string{
		0xef53: "ext4", 0x58465342: "xfs", 0x9123683e: "btrfs", 0x2fc12fc1: "zfs", 0x794c7630: "overlay", 0xf2f52010: "f2fs", 0x65735546: "fuse",
	}
)

func fileSystem(dir string) (name string, network, memory bool) {
	var st syscall.Statfs_t
	if syscall.Statfs(dir, &st) != nil {
		return "", false, false
	}
	kind := uint32(st.Type)
	if name, network = networked[kind]; network {
		return name, true, false
	}
	if name, memory = inMemory[kind]; memory {
		return name, false, true
	}
	if name = onDisk[kind]; name == "" {
		name = fmt.Sprintf("file system %#x", kind)
	}
	return name, false, false
}

// limits are those of this process.
func limits() doctor.Known[doctor.Limits] {
	const processes = 6 // RLIMIT_NPROC, but for some old machines
	var f, p syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &f); err != nil {
		return doctor.NotTried[doctor.Limits](err.Error())
	}
	if err := syscall.Getrlimit(processes, &p); err != nil {
		return doctor.NotTried[doctor.Limits](err.Error())
	}
	return doctor.Is(doctor.Limits{Files: unlimited(f.Cur), Processes: unlimited(p.Cur)})
}

// unlimited makes the system's word for it 0.
func unlimited(n uint64) uint64 {
	if n > 1<<62 {
		return 0
	}
	return n
}
