package namespace

import "github.com/rs/zerolog"

// Options configure a driver. The zero value works.
type Options struct {
	// Executable is the program that becomes the init of every guest: one whose main calls IsStage and Main first thing.
	// "" means the running program. It is copied into sealed memory at the first guest, so it may be replaced on disk.
	Executable string

	// StateDir is the state folder of the service that owns the driver. Its absolute path is the ownership mark of every
	// guest: Sweep touches guests with this mark only, so two services with different state folders never sweep each
	// other. "" gives a mark of this driver alone, and Sweep then finds nothing that an earlier process left.
	StateDir string

	Log zerolog.Logger
}
