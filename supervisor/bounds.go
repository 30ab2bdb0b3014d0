package supervisor

import "time"

// StopBound is how long a supervisor of these children may take to stop: the sum of their times, or the longest where all stop at once.
// It is Infinity when one of them is.
func StopBound(options Options, specs []ChildSpec) time.Duration {
	return bound(specs, options.Strategy == SimpleOneForOne, func(s ChildSpec) time.Duration { return s.Shutdown })
}

// StartBound is how long a supervisor of these children may take to come up when none of them fails.
func StartBound(options Options, specs []ChildSpec) time.Duration {
	return bound(specs, options.Strategy == SimpleOneForOne, func(s ChildSpec) time.Duration { return s.Start })
}

func bound(specs []ChildSpec, together bool, of func(ChildSpec) time.Duration) time.Duration {
	var total, longest time.Duration
	for _, spec := range specs {
		d := of(spec)
		if d == Infinity {
			return Infinity
		}
		d = max(d, 0)
		total += d
		longest = max(longest, d)
	}
	if together {
		return longest
	}
	return total
}
