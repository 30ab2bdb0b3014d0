package wire

// Op is what a request asks for.
type Op string

const (
	OpPing  Op = "ping"  // Answer
	OpExec  Op = "exec"  // Answer, then the output as a stream; the caller may send KindKill meanwhile
	OpPush  Op = "push"  // a tree as a stream, then Answer
	OpPull  Op = "pull"  // Answer, then a tree as a stream when there is no fault
	OpRenew Op = "renew" // Answer
)

// Request is the first frame of a connection.
type Request struct {
	Op    Op     `json:"op"`
	Nonce string `json:"nonce"`

	Argv      []string `json:"argv,omitempty"`
	TimeoutMS int64    `json:"timeoutMs,omitempty"` // 0: none
	Limit     int      `json:"limit,omitempty"`     // bytes of output kept, from the end

	Path string `json:"path,omitempty"` // absolute, in the guest
	Base string `json:"base,omitempty"` // name below Path when that is a directory already

	UntilUnixMS int64 `json:"untilUnixMs,omitempty"` // end of the lease
}

// Fault says why a request was not done.
type Fault string

const (
	FaultNone    Fault = ""
	FaultDenied  Fault = "denied"  // nonce or peer not ours
	FaultBad     Fault = "bad"     // the request makes no sense
	FaultMissing Fault = "missing" // no such file
	FaultUnsafe  Fault = "unsafe"  // symlink, special file, or a path that must not be touched
	FaultFull    Fault = "full"    // no room on the guest's disk
	FaultStart   Fault = "start"   // the command could not be started: nothing ran
	FaultFailed  Fault = "failed"  // anything else
)

// Answer ends a request, or precedes its stream.
type Answer struct {
	Fault Fault  `json:"fault,omitempty"`
	Error string `json:"error,omitempty"`

	Code     int   `json:"code,omitempty"`     // exit status; 128 + signal
	TimedOut bool  `json:"timedOut,omitempty"` // the group was killed and is gone
	Killed   bool  `json:"killed,omitempty"`   // by KindKill; the group is gone
	Left     int64 `json:"left,omitempty"`     // bytes of output that fell out at the front
}

// Sum is the body of the frame that ends a stream.
type Sum struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Error  string `json:"error,omitempty"` // the sender gave up: the stream is not whole
	Fault  Fault  `json:"fault,omitempty"`
}
