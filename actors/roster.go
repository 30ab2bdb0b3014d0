package actors

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/guest"
)

// StateFailed is the state of a guest whose actors have given up. Its record and machine are kept, and the next call on it starts
// them anew.
const StateFailed = "failed"

// roster is the table of one session's guests. It belongs to the session's supervisor and outlives the actors that use it, as
// the owner locks do that its entries hold: an actor that restarts finds its guest here, still owned. Its methods wait for nobody.
type roster struct {
	mu       sync.Mutex
	max      int
	reserved int // acquisitions that have no name yet
	entries  map[string]*entry
	end      ending
}

// ending is the end of the session, once it has been seen.
type ending struct {
	trigger string
	at      time.Time
}

// entry is one guest. Its fields are the roster's to guard, but for turn and pausing.
type entry struct {
	name   string
	held   Held          // nil until the guest is opened
	stored guest.Status  // what the record said at the start
	turn   chan struct{} // of capacity 1: full while an operation has the guest, whichever lane began it
	failed string        // why its actors gave up; "" when they have not
	lane   Ref
	lease  Ref

	releasing bool          // its release at the session's end has begun
	settled   bool          // it was paused at the session's end
	pausing   chan struct{} // of capacity 1: full while somebody pauses it

	change chan struct{} // closed when something above has changed
}

func newRoster(max int, stored []guest.Stored) *roster {
	r := &roster{max: max, entries: map[string]*entry{}}
	for _, s := range stored {
		r.entries[s.Name] = newEntry(s.Name, nil)
		r.entries[s.Name].stored = s.Status
	}
	return r
}

func newEntry(name string, held Held) *entry {
	return &entry{name: name, held: held, turn: make(chan struct{}, 1), pausing: make(chan struct{}, 1), change: make(chan struct{})}
}

// reserve takes a slot for an acquisition, or refuses it with the names of those that are held.
func (r *roster) reserve() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end.trigger != "" {
		return refuseEnding(r.end.trigger)
	}
	if len(r.entries)+r.reserved >= r.max {
		return guest.Refuse("this session may hold %d guests at once and has no room for one more: %s", r.max, r.describe())
	}
	r.reserved++
	return nil
}

// describe says what takes the slots and how one becomes free.
func (r *roster) describe() string {
	held, coming := strings.Join(r.names(), ", "), fmt.Sprintf("%d are being acquired", r.reserved)
	if r.reserved == 1 {
		coming = "1 is being acquired"
	}
	switch {
	case r.reserved == 0:
		return "it holds " + held + ". Finish or release one of them before you acquire another"
	case held == "":
		return coming + ". Wait for the answers to those calls before you acquire another"
	}
	return "it holds " + held + ", and " + coming + ". Finish or release one that it holds before you acquire another"
}

// unreserve gives a slot back.
func (r *roster) unreserve() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reserved = max(0, r.reserved-1)
}

// fill turns a reserved slot into a guest.
func (r *roster) fill(name string, held Held) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reserved = max(0, r.reserved-1)
	r.entries[name] = newEntry(name, held)
}

// opened notes that a guest found on disk is owned now.
func (r *roster) opened(name string, held Held) {
	r.update(name, func(e *entry) { e.held = held })
}

// update changes an entry and tells those who wait for it. An entry that is gone is left alone.
func (r *roster) update(name string, change func(*entry)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.entries[name]
	if !ok {
		return
	}
	change(e)
	close(e.change)
	e.change = make(chan struct{})
}

// remove frees the slot of a guest that is gone.
func (r *roster) remove(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.entries[name]; ok {
		delete(r.entries, name)
		close(e.change)
	}
}

// find copies an entry. The error is a *guest.UnknownGuestError.
func (r *roster) find(name string) (entry, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.entries[name]
	if !ok {
		return entry{}, &guest.UnknownGuestError{Name: name, Held: r.names()}
	}
	return *e, nil
}

// all copies every entry, by name.
func (r *roster) all() []entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]entry, 0, len(r.entries))
	for _, name := range r.names() {
		list = append(list, *r.entries[name])
	}
	return list
}

// held names the guests, sorted.
func (r *roster) held() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.names()
}

func (r *roster) names() []string {
	names := make([]string, 0, len(r.entries))
	for name := range r.entries {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// begin marks the end of the session; the first trigger stays.
func (r *roster) begin(trigger string, at time.Time) ending {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end.trigger == "" {
		r.end = ending{trigger: trigger, at: at}
	}
	return r.end
}

// ended tells the end of the session that has begun, if it has.
func (r *roster) ended() (ending, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end, r.end.trigger != ""
}

// status is the guest as it stands now.
func (e entry) status() guest.Status {
	if e.held == nil {
		return e.stored
	}
	status := e.held.Status()
	if e.failed != "" {
		status.State, status.LastError = StateFailed, e.failed
	}
	return status
}

func refuseEnding(trigger string) error {
	return guest.Refuse("the session is shutting down (%s); no call is taken any more", trigger)
}
