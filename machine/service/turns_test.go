package service

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
)

// Turns come in the order of asking; one who gives up frees only its own place.
func TestTurnsKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var line turns
		if err := line.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		var order []int
		impatient, giveUp := context.WithCancelCause(t.Context())
		gaveUp := errors.New("gave up")
		for i := range 5 {
			ctx := t.Context()
			if i == 2 {
				ctx = impatient
			}
			go func() {
				if err := line.take(ctx); err != nil {
					if !errors.Is(err, gaveUp) {
						t.Errorf("take = %v", err)
					}
					return
				}
				order = append(order, i)
				line.give()
			}()
			synctest.Wait()
		}
		if line.tryTake() {
			t.Error("a turn that is taken was given again")
		}
		giveUp(gaveUp)
		synctest.Wait()
		line.give()
		synctest.Wait()
		if want := []int{0, 1, 3, 4}; !slices.Equal(order, want) {
			t.Errorf("order = %v, want %v", order, want)
		}
		if !line.tryTake() {
			t.Error("the turn is not free at the end")
		}
	})
}

// A turn that comes in the moment of giving up is passed on.
func TestTurnGivenToOneWhoLeftIsPassedOn(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			var line turns
			if err := line.take(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				if line.take(ctx) == nil {
					line.give()
				}
			}()
			synctest.Wait()
			go cancel()
			go line.give()
			synctest.Wait()
			if !line.tryTake() {
				t.Error("the turn was lost")
			}
		})
	}
}
