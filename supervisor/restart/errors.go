package restart

import (
	"errors"
	"fmt"
	"time"
)

// Exit reasons. Any other reason is a crash.
var (
	ErrNormal   = errors.New("normal")   // the child had nothing more to do
	ErrShutdown = errors.New("shutdown") // the child was asked to stop

	ErrKilled       = errors.New("killed")                   // it was abandoned, or its context ended
	ErrStartTimeout = errors.New("start timeout")            // it did not come up in time
	ErrIntensity    = errors.New("restart intensity passed") // a supervisor's own reason, see IntensityError
)

// Refusals of what is asked for at run time.
var (
	ErrExists   = errors.New("a child of this id exists")
	ErrUnknown  = errors.New("no child has this id")
	ErrRunning  = errors.New("the child is not down")
	ErrStopping = errors.New("the supervisor is stopping")
)

// IsNormal says whether a reason counts as an orderly end.
func IsNormal(reason error) bool {
	return errors.Is(reason, ErrNormal) || errors.Is(reason, ErrShutdown)
}

// IntensityError is the reason of a supervisor that gave up. It is an ErrIntensity.
type IntensityError struct {
	Child     string // whose failure was one too many
	Reason    error  // of that failure
	Intensity Intensity
}

func (e *IntensityError) Error() string {
	return fmt.Sprintf("more than %d restarts within %v, the last of %s: %v", e.Intensity.MaxRestarts, e.Intensity.Period, e.Child, e.Reason)
}

// Is makes the error an ErrIntensity.
func (e *IntensityError) Is(target error) bool { return target == ErrIntensity }

// SpecError says what is wrong with a description.
type SpecError struct {
	Child string // empty when it is about the supervisor
	Why   string
}

func (e *SpecError) Error() string {
	if e.Child == "" {
		return "cannot supervise: " + e.Why
	}
	return fmt.Sprintf("cannot supervise child %q: %s", e.Child, e.Why)
}

// Validate says everything that is wrong with a supervisor's description, as joined *SpecErrors.
func Validate(options Options, specs []ChildSpec) error {
	faults := []error{options.validate()}
	seen := map[string]bool{}
	for _, spec := range specs {
		if seen[spec.ID] {
			faults = append(faults, &SpecError{spec.ID, "another child has the same id"})
		}
		seen[spec.ID] = true
		faults = append(faults, spec.validate(options))
	}
	return errors.Join(faults...)
}

func (o Options) validate() error {
	switch {
	case o.Strategy < OneForOne || o.Strategy > SimpleOneForOne:
		return &SpecError{"", "the strategy is unknown"}
	case o.AutoShutdown < Never || o.AutoShutdown > AllSignificant:
		return &SpecError{"", "the auto-shutdown is unknown"}
	case o.Intensity.MaxRestarts < 0:
		return &SpecError{"", "MaxRestarts is negative"}
	case o.Intensity.MaxRestarts > 0 && o.Intensity.Period <= 0:
		return &SpecError{"", "Period is not positive"}
	case o.backoffDefeatsIntensity():
		return &SpecError{"", "the backoff is so long that MaxRestarts can never happen within Period"}
	}
	return nil
}

// backoffDefeatsIntensity says whether a child that fails as soon as it is started would be restarted for ever.
func (o Options) backoffDefeatsIntensity() bool {
	if o.Backoff == nil || o.Intensity.MaxRestarts == 0 {
		return false
	}
	var waited time.Duration
	for n := 1; n <= o.Intensity.MaxRestarts && waited < o.Intensity.Period; n++ {
		waited += max(o.Backoff(n), 0)
	}
	return waited >= o.Intensity.Period
}

func (s ChildSpec) validate(o Options) error {
	switch {
	case s.ID == "":
		return &SpecError{s.ID, "the id is empty"}
	case s.Restart < Permanent || s.Restart > Temporary:
		return &SpecError{s.ID, "the restart type is unknown"}
	case s.Type < Worker || s.Type > Supervisor:
		return &SpecError{s.ID, "the type is unknown"}
	case s.Start <= 0:
		return &SpecError{s.ID, "Start is not positive"}
	case s.Shutdown <= 0 && s.Shutdown != BrutalKill:
		return &SpecError{s.ID, "Shutdown is neither BrutalKill, a positive time, nor Infinity"}
	case s.Significant && s.Restart == Permanent:
		return &SpecError{s.ID, "a permanent child cannot be significant: it never ends for good"}
	case s.Significant && o.AutoShutdown == Never:
		return &SpecError{s.ID, "a significant child needs an AutoShutdown"}
	case s.stopDefeatsIntensity(o):
		return &SpecError{s.ID, "Shutdown is not below Period / MaxRestarts, so that the intensity could never be passed"}
	}
	return nil
}

// stopDefeatsIntensity says whether stopping this child as part of a group restart may take so long that restarts never get dense
// enough. Where children are restarted alone no restart waits for a stop.
func (s ChildSpec) stopDefeatsIntensity(o Options) bool {
	return o.Strategy.inGroups() && o.Intensity.MaxRestarts > 0 && s.Shutdown != Infinity && s.Shutdown != BrutalKill &&
		s.Shutdown >= o.Intensity.Period/time.Duration(o.Intensity.MaxRestarts)
}
