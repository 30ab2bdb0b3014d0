package restart_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/supervisor/restart"
)

// A database and a cache that is worthless without it: when the database fails, both are restarted, in order.
func Example() {
	now := time.Unix(0, 0)
	core, err := restart.New(
		restart.Options{Strategy: restart.RestForOne, Intensity: restart.Intensity{MaxRestarts: 1, Period: time.Minute}},
		restart.ChildSpec{ID: "database", Start: time.Second, Shutdown: time.Second},
		restart.ChildSpec{ID: "cache", Start: time.Second, Shutdown: time.Second},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	tell := func(event restart.Event) {
		for _, effect := range core.Step(now, event) {
			fmt.Printf("%T%v\n", effect, effect)
		}
	}
	tell(restart.Began{})
	tell(restart.ChildStarted{ID: "database", Incarnation: 1})
	tell(restart.ChildStarted{ID: "cache", Incarnation: 2})
	fmt.Println("-- the database crashes")
	tell(restart.ChildExited{ID: "database", Incarnation: 1, Reason: errors.New("disk full")})
	tell(restart.ChildExited{ID: "cache", Incarnation: 2, Reason: restart.ErrShutdown})
	tell(restart.ChildStarted{ID: "database", Incarnation: 3})
	fmt.Println("-- and once more")
	tell(restart.ChildExited{ID: "database", Incarnation: 3, Reason: errors.New("disk full")})
	tell(restart.ChildExited{ID: "cache", Incarnation: 4, Reason: restart.ErrShutdown})
	// Output:
	// restart.StartChild{database 1}
	// restart.StartChild{cache 2}
	// restart.Ready{}
	// -- the database crashes
	// restart.Restarting{database 1 disk full 1 0s}
	// restart.StopChild{cache 2 shutdown}
	// restart.StartChild{database 3}
	// restart.StartChild{cache 4}
	// -- and once more
	// restart.StopChild{cache 4 shutdown}
	// restart.Exit{more than 1 restarts within 1m0s, the last of database: disk full}
}
