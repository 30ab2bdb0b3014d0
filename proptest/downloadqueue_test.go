package proptest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/actors/downloadqueue"
)

// P7: one transfer at a time, never two of one key, in order but for promoted ones; every job ends exactly once unless the queue closes;
// nothing starts while it is paused, but a promoted one; a drain waits for the one in flight alone; who waits for room is woken.
func TestDownloadQueue(t *testing.T) {
	check(t, 1500, 80, facts(func() func(int) string { return newDownloadWorld().fact }))
}

const downloadBound = 3

// downloadWorld keeps books of its own.
type downloadWorld struct {
	queue    *downloadqueue.Queue
	waiting  []downloadqueue.Key
	promoted map[downloadqueue.Key]bool
	flying   downloadqueue.Key
	must     map[downloadqueue.Key]downloadqueue.End // ends that must be recorded
	writing  map[downloadqueue.Key]downloadqueue.End
	counts   map[downloadqueue.End]int
	paused   bool
	state    string
	drained  bool // told since the drain was asked
	full     bool
	wake     bool // must be told
}

func newDownloadWorld() *downloadWorld {
	return &downloadWorld{
		queue:    downloadqueue.New(downloadqueue.Limits{Bound: downloadBound}, time.Time{}),
		promoted: map[downloadqueue.Key]bool{}, must: map[downloadqueue.Key]downloadqueue.End{}, writing: map[downloadqueue.Key]downloadqueue.End{},
		counts: map[downloadqueue.End]int{}, state: "open",
	}
}

func (w *downloadWorld) fact(k int) string {
	choice, rest := k%16, k/16
	switch choice {
	case 0, 1, 2, 3, 4:
		return w.enqueue(rest)
	case 5, 6:
		return w.promote(rest)
	case 7, 8, 9:
		return w.end(rest)
	case 10, 11, 12:
		return w.record()
	case 13:
		w.paused = false
		return w.step(downloadqueue.OperationEnded{})
	case 14:
		return w.drain(rest)
	default:
		if rest%8 > 0 {
			return w.step(downloadqueue.Recorded{Key: "nobody"})
		}
		w.state = "closed"
		return w.step(downloadqueue.Closed{})
	}
}

func (w *downloadWorld) enqueue(k int) string {
	key := downloadqueue.Key(fmt.Sprint(k % 20))
	_, writing := w.writing[key]
	if w.state == "open" && key != w.flying && !writing && !slices.Contains(w.waiting, key) {
		w.waiting = append(w.waiting, key)
	}
	return w.step(downloadqueue.JobQueued{Key: key})
}

func (w *downloadWorld) promote(k int) string {
	if len(w.waiting) == 0 {
		return w.step(downloadqueue.Promoted{Key: w.flying})
	}
	i := k % len(w.waiting)
	key := w.waiting[i]
	w.waiting = slices.Insert(slices.Delete(w.waiting, i, i+1), 0, key)
	w.promoted[key] = true
	return w.step(downloadqueue.Promoted{Key: key})
}

func (w *downloadWorld) end(k int) string {
	if w.flying == "" {
		return w.step(downloadqueue.JobEnded{Key: "nobody", End: downloadqueue.Downloaded})
	}
	ev := downloadqueue.JobEnded{Key: w.flying, End: downloadqueue.Downloaded}
	switch k % 3 {
	case 0:
		ev.End = downloadqueue.Failed
	case 1:
		ev.End, ev.Transient = downloadqueue.Failed, true
		w.paused = w.paused || w.state == "open"
	default:
		w.paused = false
	}
	if w.state != "closed" {
		w.must[w.flying] = ev.End
	}
	w.flying = ""
	return w.step(ev)
}

func (w *downloadWorld) record() string {
	for key, end := range w.writing {
		delete(w.writing, key)
		w.counts[end]++
		return w.step(downloadqueue.Recorded{Key: key})
	}
	return ""
}

func (w *downloadWorld) drain(k int) string {
	if w.state == "closing" && k%2 == 0 {
		w.state = "open"
		return w.step(downloadqueue.Reopened{})
	}
	if w.state != "closed" {
		w.state, w.paused, w.drained = "closing", false, false
		for _, key := range w.waiting {
			w.must[key] = downloadqueue.Coalesced
		}
		w.waiting = nil
		clear(w.promoted)
	}
	return w.step(downloadqueue.DrainAsked{})
}

func (w *downloadWorld) step(event downloadqueue.Event) string {
	if _, closing := event.(downloadqueue.Closed); closing {
		return w.closed(w.queue.Step(time.Time{}, event))
	}
	effects := w.queue.Step(time.Time{}, event)
	if w.state == "closed" && len(effects) > 0 {
		return fmt.Sprintf("a closed queue orders %v", effects)
	}
	w.wake = w.full
	for _, effect := range effects {
		if violation := w.ordered(effect); violation != "" {
			return fmt.Sprintf("%v after %#v: %s", effect, event, violation)
		}
	}
	return w.atRest()
}

// closed checks the close itself: the one in flight is aborted, and nothing is written.
func (w *downloadWorld) closed(effects []downloadqueue.Effect) string {
	for _, effect := range effects {
		switch e := effect.(type) {
		case downloadqueue.AbortJob:
			if e.Key != w.flying {
				return "it aborts what is not in flight"
			}
			w.flying = ""
		case downloadqueue.WakeWaiters:
		default:
			return fmt.Sprintf("%v at the close", effect)
		}
	}
	if w.flying != "" {
		return "it does not abort the one in flight"
	}
	return ""
}

func (w *downloadWorld) ordered(effect downloadqueue.Effect) string {
	switch e := effect.(type) {
	case downloadqueue.BeginJob:
		if w.state != "open" || w.flying != "" || len(w.writing) > 0 || len(w.must) > 0 {
			return "something is in flight, or the queue is not open"
		}
		if len(w.waiting) == 0 || w.waiting[0] != e.Key || (w.paused && !w.promoted[e.Key]) {
			return "it is not the first that may begin"
		}
		w.flying, w.waiting = e.Key, w.waiting[1:]
		delete(w.promoted, e.Key)
	case downloadqueue.RecordEnd:
		if w.must[e.Key] != e.End {
			return "that is not its end"
		}
		delete(w.must, e.Key)
		w.writing[e.Key] = e.End
	case downloadqueue.WakeWaiters:
		if !w.wake {
			return "nobody waits"
		}
		w.wake = false
	case downloadqueue.Drained:
		if w.state != "closing" || w.flying != "" || len(w.writing) > 0 {
			return "something is in flight"
		}
		w.drained = true
	}
	return ""
}

// atRest is what holds after every fact.
func (w *downloadWorld) atRest() string {
	if w.state == "closed" {
		return ""
	}
	pending := len(w.waiting) + len(w.writing)
	if w.flying != "" {
		pending++
	}
	was := w.full
	w.full = w.state == "open" && !w.paused && pending > downloadBound
	view := w.queue.View()
	idle := w.flying == "" && len(w.writing) == 0
	switch {
	case len(w.must) > 0:
		return fmt.Sprintf("ends not recorded: %v", w.must)
	case view.Full != w.full:
		return fmt.Sprintf("full %t, want %t", view.Full, w.full)
	case was && !w.full && w.wake:
		return "who waits was not woken"
	case w.state == "closing" && idle && !w.drained:
		return "the drain is over and nobody was told"
	case w.state == "open" && idle && len(w.waiting) > 0 && (!w.paused || w.promoted[w.waiting[0]]):
		return "a job could begin and does not"
	case view.State != w.state || view.Paused != w.paused || view.Counts[downloadqueue.Downloaded] != w.counts[downloadqueue.Downloaded]:
		return fmt.Sprintf("it shows %+v", view)
	}
	return ""
}
