package load

import (
	"unsafe"

	"github.com/pbnjay/memory"
	"golang.org/x/sys/windows"
)

var systemTimes = windows.NewLazySystemDLL("kernel32.dll").NewProc("GetSystemTimes")

// read asks the system; it has no load average.
func read() (s sample) {
	var idle, kernel, user windows.Filetime // kernel includes idle
	if ok, _, _ := systemTimes.Call(uintptr(unsafe.Pointer(&idle)), uintptr(unsafe.Pointer(&kernel)), uintptr(unsafe.Pointer(&user))); ok != 0 {
		of := func(t windows.Filetime) uint64 { return uint64(t.HighDateTime)<<32 | uint64(t.LowDateTime) }
		s.total = of(kernel) + of(user)
		s.busy = s.total - min(s.total, of(idle))
	}
	s.memoryOf = int64(memory.TotalMemory())
	s.memory = s.memoryOf - int64(memory.FreeMemory())
	return s
}
