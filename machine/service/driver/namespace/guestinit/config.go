package guestinit

// File descriptors of both stages, behind the standard ones.
const (
	controlFD  = 3 // socket to the driver that starts the guest: SetupConfig, InitConfig, one Report
	listenerFD = 4 // listening socket in the guest's folder
	slotFD     = 5 // only held: it keeps the guest's range of user ids taken. Absent without one
)

// SetupConfig is sent when the process is where it belongs and recorded. Nothing happens before.
type SetupConfig struct {
	Name     string `json:"name"`
	DiskMB   int    `json:"diskMb"` // all that the guest can write, in memory
	Pids     int    `json:"pids"`   // processes and threads, as a resource limit besides the control group's
	ManyUIDs bool   `json:"manyUids"`
}

// InitConfig is read by the second stage.
type InitConfig struct {
	Nonce          string `json:"nonce"`
	DeadlineUnixMS int64  `json:"deadlineUnixMs"` // 0: none
	GraceMS        int64  `json:"graceMs"`
	Geometry       string `json:"geometry"` // of the display, "1280x800"; "" for none
}

// Report is the one thing sent back over the control socket.
type Report struct {
	Step  string `json:"step,omitempty"` // what failed
	Error string `json:"error,omitempty"`
	Errno int    `json:"errno,omitempty"`

	Display string `json:"display,omitempty"` // geometry of the display that runs
}
