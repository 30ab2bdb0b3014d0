package actors

import "sync"

// unhandled are the Failers in one mailbox. Should hollywood lose the mailbox, because a Goexit took the goroutine away under it, they are
// all that can still be told.
type unhandled struct {
	mu  sync.Mutex
	all map[*carried]struct{}
}

// carried is a Failer on its way through a mailbox.
type carried struct{ msg Failer }

// wrap gives what goes into the mailbox in place of a message.
func (u *unhandled) wrap(msg any) any {
	failer, ok := msg.(Failer)
	if !ok {
		return msg
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = map[*carried]struct{}{}
	}
	c := &carried{failer}
	u.all[c] = struct{}{}
	return c
}

// unwrap gives the message that came out of the mailbox.
func (u *unhandled) unwrap(msg any) any {
	c, ok := msg.(*carried)
	if !ok {
		return msg
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.all, c)
	return c.msg
}

// failAll fails what never came out.
func (u *unhandled) failAll(why error) {
	u.mu.Lock()
	lost := u.all
	u.all = nil
	u.mu.Unlock()
	for c := range lost {
		fail(c.msg, why)
	}
}
