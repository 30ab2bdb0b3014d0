package actors

import "context"

// Reply is where the answer to one question goes. It travels inside a message; embedded there, it makes the message a Failer. The zero
// Reply swallows its answer, for messages that are told without a question.
type Reply[T any] struct{ answers chan answer[T] }

type answer[T any] struct {
	value T
	err   error
}

// Send answers. Only the first answer counts; none ever blocks, and one that nobody waits for costs nothing.
func (r Reply[T]) Send(value T) { r.put(answer[T]{value: value}) }

// Fail answers with an error.
func (r Reply[T]) Fail(err error) { r.put(answer[T]{err: err}) }

func (r Reply[T]) put(a answer[T]) {
	select {
	case r.answers <- a:
	default:
	}
}

// Ask tells a message that carries a Reply and waits for its answer. It ends by the answer, by the end of ctx (with ctx's cause), or by the
// end of the actor (with a *DownError); an answer given before either is never lost. It must not be called by a behaviour: two that ask
// each other would wait for ever.
func Ask[T any](ctx context.Context, to Ref, message func(Reply[T]) any) (T, error) {
	reply := Reply[T]{make(chan answer[T], 1)}
	to.Tell(message(reply))
	var why error
	select {
	case a := <-reply.answers:
		return a.value, a.err
	case <-ctx.Done():
		why = context.Cause(ctx)
	case <-to.Done():
		why = &DownError{Path: to.Path(), Reason: to.Err()}
	}
	select {
	case a := <-reply.answers:
		return a.value, a.err
	default:
		var none T
		return none, why
	}
}
