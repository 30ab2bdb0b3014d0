package actors

import (
	"testing"

	"github.com/seed-1e4c9d81/mcp-relay/guest"
)

func TestALimitSaysWhatTakesTheRoomAndHowSomeBecomesFree(t *testing.T) {
	const full = "this session may hold 2 guests at once and has no room for one more: "
	for _, test := range []struct {
		name   string
		held   []guest.Stored
		coming int
		want   string
	}{
		{"all held", []guest.Stored{{Name: "a-1"}, {Name: "b-1"}}, 0, full + "it holds a-1, b-1. Finish or release one of them before you acquire another"},
		{"all coming", nil, 2, full + "2 are being acquired. Wait for the answers to those calls before you acquire another"},
		{"both", []guest.Stored{{Name: "a-1"}}, 1, full + "it holds a-1, and 1 is being acquired. Finish or release one that it holds before you acquire another"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRoster(2, test.held)
			for range test.coming {
				if err := r.reserve(); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.reserve(); err == nil || err.Error() != test.want {
				t.Errorf("refused with %v, want %q", err, test.want)
			}
		})
	}
}
