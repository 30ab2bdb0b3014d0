package guestinit

import (
	"os"
	"strings"
	"testing"
)

func TestTailKeepsTheLastBytesAndCountsTheRest(t *testing.T) {
	for _, limit := range []int{0, 1, 10, 1000} {
		all := ""
		tl := tail{limit: limit}
		for i := range 5000 {
			part := strings.Repeat(string(rune('a'+i%26)), i%37)
			all += part
			tl.write([]byte(part))
		}
		tl.trim()
		want := all[max(0, len(all)-limit):]
		if string(tl.kept) != want || tl.left != int64(len(all)-len(want)) {
			t.Errorf("limit %d: kept %d, left out %d; want %d and %d", limit, len(tl.kept), tl.left, len(want), len(all)-len(want))
		}
	}
}

// What was written before the command's end counts, however late it is read; what others write later does not.
func TestOutputEndsWithTheCommand(t *testing.T) {
	for range 200 {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		o := collect(read, 1<<20)
		want := strings.Repeat("x", 50_000)
		if _, err := write.WriteString(want); err != nil {
			t.Fatal(err)
		}
		got, _ := o.finish()
		if string(got) != want {
			t.Fatalf("%d bytes, want %d", len(got), len(want))
		}
		if _, err := write.WriteString("from a process left behind"); err != nil {
			t.Fatalf("a process left behind cannot write: %v", err)
		}
		write.Close()
	}
}
