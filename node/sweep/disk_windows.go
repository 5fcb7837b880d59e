package sweep

import "os"

// onDisk is what a file takes on its disk.
func onDisk(info os.FileInfo) int64 { return info.Size() }
