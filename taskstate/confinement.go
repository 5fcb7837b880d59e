package taskstate

// Confinement is what a task runs under on its peer: what the peer's policy says, joined with what
// the job asks for. The peer that runs the task makes it; it does not travel.
type Confinement struct {
	As      string   // AsSelf, AsDynamic, or a user's name behind AsUser
	Read    []string // with IsolateFS and above: absolute paths that can be read besides
	Net     string   // "" or NetAny; NetNone
	Isolate string   // "" or IsolateNone; IsolateFS, IsolateStrong: at least that
	Require []string // RequireLandlock …: what must hold here, or the task is refused
	Without []string // WithoutNNP …: protections that the peer's owner has switched off
	MaxTime int64    // milliseconds that an attempt may run; 0: as its job says
	Limits  []Limit  // of each of its processes
	Ours    bool     // this peer ordered it, or an admin whom its owner lets in as one: as the peer's user it may see the folders of other tasks
}

// Limit bounds something for each process of a task.
type Limit struct {
	Of  string `cbor:"1,keyasint"`
	Max int64  `cbor:"2,keyasint"`
}

// What Limit.Of can say.
const (
	LimitFiles     = "files"     // open at once
	LimitProcesses = "processes" // with their threads, of the user it runs as, in all its tasks
	LimitCore      = "core"      // bytes of what is left of one that crashed
	LimitFileSize  = "file_size" // bytes of a file it writes
)

// LeastFiles is how many files a process can be limited to: what it is started with, and one more.
const LeastFiles = 4

// What Confinement.As can say.
const (
	AsSelf    = "self"    // the user that runs the peer
	AsDynamic = "dynamic" // a user of its own
	AsUser    = "user:"   // before the name of a user of this machine
)

// What Confinement.Net can say.
const (
	NetAny  = "any"
	NetNone = "none" // not even this machine itself
)

// What Confinement.Isolate can say, each more than the one before.
const (
	IsolateNone   = "none"   // as its user may, but for the peer's data folder
	IsolateFS     = "fs"     // writes its own folder, reads the system's folders and Confinement.Read
	IsolateStrong = "strong" // and sees no processes but its own, and shares no memory and no mounts with others; without a network where nothing names one
)

// What Confinement.Require can name.
const (
	RequireLandlock = "landlock" // the kernel restricts which files it opens
	RequireUser     = "uid"      // a user that is not the peer's
	RequireCgroup   = "cgroup"   // a control group that ends all of it
	RequireNet      = "net"      // a network namespace of its own
)

// What else can be kept from a task, for people who ask what holds on a machine.
const (
	HoldsNNP  = WithoutNNP
	HoldsHide = WithoutHide
	// HoldsLimits is that processes have limits.
	HoldsLimits = "limits"
)

// What Confinement.Without can name. Each holds for every task whose peer's owner does not say so.
const (
	WithoutNNP  = "nnp"  // it may gain privileges, as sudo does
	WithoutHide = "hide" // it may open the peer's data folder, and so become the peer
)
