package frame_test

import (
	"fmt"
	"os"
	"strings"

	"github.com/seed-1e4c9d81/mcp-relay/guest/frame"
)

func Example() {
	w := frame.NewWriter(os.Stdout)
	if _, err := w.Add(frame.Header{Path: "notes.txt", Bytes: 3}, strings.NewReader("hi\n")); err != nil {
		fmt.Println(err)
	}
	// Output:
	// {"path":"notes.txt","bytes":3}
	// hi
	// {"sha256":"98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4"}
}
