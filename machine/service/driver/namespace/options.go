package namespace

import "github.com/rs/zerolog"

// Options configure a driver. The zero value works.
type Options struct {
	// Executable is the program that becomes the init of every guest: one whose main calls IsStage and Main first thing.
	// "" means the running program. It is copied into sealed memory at the first guest, so it may be replaced on disk.
	Executable string

	// StateDir is the state folder of the service that owns the driver. Its absolute path is the ownership mark of every
	// guest: Sweep touches guests with this mark only, so two services with different state folders never sweep each
	// other. The guest that Check makes lives in its folder check. One process at a time may use a state folder, which the
	// service's lock sees to. "" gives a mark of this driver alone, of which nobody later knows, and any number of processes
	// may go without a state folder: each Check then makes its guest in a folder of its own among the temporary files, and
	// what it leaves when it is killed is removed by the user's next Check or Sweep.
	StateDir string

	Log zerolog.Logger
}
