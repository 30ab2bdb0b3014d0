package mcpgate

import (
	"context"
	"testing"
)

func TestTurnsGoRoundInOrderAndLeaveNothing(t *testing.T) {
	turns := newTurns()
	first, second, third, other := turns.take("a"), turns.take("a"), turns.take("a"), turns.take("b")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	open := func(p *turn) bool {
		select {
		case <-p.open:
			return true
		default:
			return false
		}
	}
	if !open(first) || open(second) || open(third) || !open(other) {
		t.Error("only the first of each guest may go on")
	}
	if second.wait(gone) == nil {
		t.Error("a cancelled wait must fail")
	}
	second.leave()
	if open(third) {
		t.Error("leaving from the middle must not let the next one past the first")
	}
	first.leave()
	first.leave()
	if err := third.wait(t.Context()); err != nil {
		t.Error(err)
	}
	third.leave()
	other.leave()
	if len(turns.queues) != 0 {
		t.Errorf("%d queues are left", len(turns.queues))
	}
}

func TestACallWithoutGuestHasNoTurn(t *testing.T) {
	none := newTurns().take("")
	if none != nil {
		t.Fatal("a place was given")
	}
	if err := none.wait(t.Context()); err != nil {
		t.Error(err)
	}
	none.leave()
}
