package actors

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Ref addresses one incarnation of an actor. It is a small value, comparable, safe for use by any goroutine. The zero Ref addresses
// nobody: what is told to it fails, and it is done.
type Ref struct{ life *life }

// Tell puts a message into the mailbox. It never waits. Messages of one goroutine arrive in order.
func (r Ref) Tell(msg any) {
	if r.life == nil {
		fail(msg, &DownError{})
		return
	}
	r.life.tell(msg)
}

// Done is closed when the incarnation has ended, Terminate included.
func (r Ref) Done() <-chan struct{} {
	if r.life == nil {
		return nobodyDone
	}
	return r.life.done
}

// Alive says whether the incarnation has not ended.
func (r Ref) Alive() bool {
	select {
	case <-r.Done():
		return false
	default:
		return true
	}
}

// Err is nil while the incarnation lives, and then its exit reason.
func (r Ref) Err() error {
	if r.life == nil {
		return ErrDown
	}
	return r.life.reasonIfEnded()
}

// ID is the actor's name among its siblings. It is the same in every incarnation.
func (r Ref) ID() string {
	if r.life == nil {
		return ""
	}
	return r.life.id
}

// Path is the names from the root down to the actor, with slashes between.
func (r Ref) Path() string {
	if r.life == nil {
		return ""
	}
	return r.life.path
}

func (r Ref) String() string { return r.Path() }

var nobodyDone = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// state of an incarnation, as introspection shows it.
type state int32

const (
	starting state = iota
	running
	stoppingState
	ended
)

// life is what is shared between an incarnation and those who know it.
type life struct {
	id, path    string
	incarnation uint64 // unique in the engine
	engine      *Engine
	box         mailbox
	done        chan struct{}
	ctx         context.Context // ends when the life has ended, or is to
	cancel      context.CancelFunc
	made        time.Time
	pending     atomic.Int64 // messages told and not taken
	state       atomic.Int32
	unhandled   unhandled

	mu       sync.RWMutex // read: while telling; write: everything below
	closed   bool
	orphaned bool // its supervisor has given up on it
	reason   error
	watchers map[*life]struct{}
	children []ChildInfo // of a supervisor, as of its last step
}

// tell puts a message before the pill, or fails it: none gets lost between.
func (l *life) tell(msg any) {
	l.mu.RLock()
	if l.closed {
		l.mu.RUnlock()
		l.deadLetter(msg)
		return
	}
	defer l.mu.RUnlock()
	l.pending.Add(1)
	l.box.push(l.unhandled.wrap(msg))
}

// deadLetter ends a message that is never handled.
func (l *life) deadLetter(msg any) {
	switch msg.(type) {
	case signal, Down:
		return
	}
	l.engine.deadLetters.Add(1)
	fail(msg, &DownError{Path: l.path, Reason: l.reasonIfEnded()})
}

func (l *life) reasonIfEnded() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.reason
}

// end closes the door, tells those who watch, and lets go of those who wait. It is called once.
func (l *life) end(reason error) {
	l.mu.Lock()
	l.closed, l.reason = true, reason
	watchers := l.watchers
	l.watchers = nil
	if l.orphaned {
		l.engine.abandoned.Add(-1)
	}
	l.mu.Unlock()
	l.state.Store(int32(ended))
	l.engine.living.Add(-1)
	for watcher := range watchers {
		watcher.tell(Down{Ref{l}, reason})
	}
}

// abandon ends the context, and counts the incarnation until it ends.
func (l *life) abandon() {
	l.mu.Lock()
	if !l.closed && !l.orphaned {
		l.orphaned = true
		l.engine.abandoned.Add(1)
	}
	l.mu.Unlock()
	l.cancel()
}

// watch has the watcher told when the life ends; at once when it has ended.
func (l *life) watch(watcher *life) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		watcher.tell(Down{Ref{l}, l.reasonIfEnded()})
		return
	}
	defer l.mu.Unlock()
	if l.watchers == nil {
		l.watchers = map[*life]struct{}{}
	}
	l.watchers[watcher] = struct{}{}
}

func (l *life) unwatch(watcher *life) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.watchers, watcher)
}

// fail tells a message that it was not handled. A panic in it is its own loss.
func fail(msg any, why error) {
	failer, ok := msg.(Failer)
	if !ok {
		return
	}
	defer func() { _ = recover() }()
	failer.Fail(why)
}
