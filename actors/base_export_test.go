package actors

import "strconv"

// Registered says whether hollywood has the process of an incarnation on its books.
func Registered(e *Engine, ref Ref) bool {
	return e.hollywood.Registry.GetPID(ref.Path(), strconv.FormatUint(ref.life.incarnation, 10)) != nil
}
