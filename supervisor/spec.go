package supervisor

import "github.com/seed-1e4c9d81/mcp-relay/supervisor/restart"

// Descriptions; see package restart.
type (
	ChildSpec    = restart.ChildSpec
	Options      = restart.Options
	Intensity    = restart.Intensity
	Strategy     = restart.Strategy
	Restart      = restart.Restart
	Type         = restart.Type
	AutoShutdown = restart.AutoShutdown
	ChildView    = restart.ChildView
)

// Strategies.
const (
	OneForOne       = restart.OneForOne
	OneForAll       = restart.OneForAll
	RestForOne      = restart.RestForOne
	SimpleOneForOne = restart.SimpleOneForOne
)

// Restart types.
const (
	Permanent = restart.Permanent
	Transient = restart.Transient
	Temporary = restart.Temporary
)

// Types of children. The type of a child that is a supervisor is TypeSupervisor.
const (
	TypeWorker     = restart.Worker
	TypeSupervisor = restart.Supervisor
)

// Auto-shutdowns.
const (
	Never          = restart.Never
	AnySignificant = restart.AnySignificant
	AllSignificant = restart.AllSignificant
)

// Values of ChildSpec.Shutdown that are not a length of time.
const (
	BrutalKill = restart.BrutalKill
	Infinity   = restart.Infinity
)

// Exit reasons and refusals.
var (
	ErrNormal       = restart.ErrNormal
	ErrShutdown     = restart.ErrShutdown
	ErrKilled       = restart.ErrKilled
	ErrStartTimeout = restart.ErrStartTimeout
	ErrIntensity    = restart.ErrIntensity
	ErrExists       = restart.ErrExists
	ErrUnknown      = restart.ErrUnknown
	ErrRunning      = restart.ErrRunning
	ErrStopping     = restart.ErrStopping
)

// Errors with fields.
type (
	IntensityError = restart.IntensityError
	SpecError      = restart.SpecError
)

// IsNormal says whether a reason counts as an orderly end.
func IsNormal(reason error) bool { return restart.IsNormal(reason) }
