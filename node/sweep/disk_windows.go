package sweep

import "os"

func onDisk(info os.FileInfo) int64 { return info.Size() }
