package guest

import "context"

type admittedKey struct{}

// WithAdmitted returns a context under which Admitted calls told. Callers that send calls on one guest in their order of
// arrival use it to learn when the place of one call is fixed, so that the next may follow without waiting for its end.
func WithAdmitted(ctx context.Context, told func()) context.Context {
	return context.WithValue(ctx, admittedKey{}, told)
}

// Admitted says that the call of ctx has its place among the calls on its guest: one that begins now comes after it. It is a
// courtesy: a call that never says it is taken to have its place when it ends. Saying it twice is harmless.
func Admitted(ctx context.Context) {
	if told, ok := ctx.Value(admittedKey{}).(func()); ok {
		told()
	}
}
