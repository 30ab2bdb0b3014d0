package mcpgate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/seed-1e4c9d81/mcp-relay/guest"
)

// Annotations are the four hints of a tool. All are always given: a client's defaults for the last two are true.
type Annotations struct {
	ReadOnlyHint    bool `json:"readOnlyHint"`
	IdempotentHint  bool `json:"idempotentHint"`
	DestructiveHint bool `json:"destructiveHint"`
	OpenWorldHint   bool `json:"openWorldHint"`
}

// Tool is the definition of one tool as a client sees it.
type Tool struct {
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	Annotations Annotations     `json:"annotations"`
}

// tool is one row of the table: what a client sees, what a call may say, and which method answers it.
type tool struct {
	name        string
	title       string
	description string
	hints       Annotations
	repeatable  bool // after a failure that leaves open how far it came, the same call may be sent again
	input       object
	rules       []rule
	call        func(ctx context.Context, relay Relay, input []byte) (guest.Result, error)
}

// table holds the tools in the order in which they are listed. A new tool is a new row.
var table = []tool{
	relaySearch,
	relayProbe,
	relayAcquire,
	relayStage,
	relayScript,
	relayImage,
	relayExtract,
	relayFinish,
	relayRelease,
	relayStatus,
}

// The hints of the three kinds of tools.
var (
	reads  = Annotations{ReadOnlyHint: true, IdempotentHint: true}
	acts   = Annotations{}
	ending = Annotations{DestructiveHint: true}
)

// Tools are the definitions of all tools, in the order of the table.
func Tools() []Tool {
	tools := make([]Tool, len(table))
	for i, t := range table {
		tools[i] = t.definition()
	}
	return tools
}

func (t tool) definition() Tool {
	raw, err := encodeJSON(t.input.schema())
	if err != nil {
		raw = []byte(`{"type":"object"}`) // a schema is made of strings, numbers and lists, which always encode
	}
	return Tool{Name: t.name, Title: t.title, Description: t.description, InputSchema: raw, Annotations: t.hints}
}

// findTool finds a row by name.
func findTool(name string) (tool, bool) {
	for _, t := range table {
		if t.name == name {
			return t, true
		}
	}
	return tool{}, false
}

// decoded makes a row's call out of a method of Relay, which gets the checked input in its own type.
func decoded[In any](method func(Relay, context.Context, In) (guest.Result, error)) func(context.Context, Relay, []byte) (guest.Result, error) {
	return func(ctx context.Context, relay Relay, input []byte) (guest.Result, error) {
		var in In
		decoder := json.NewDecoder(bytes.NewReader(input))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&in); err != nil {
			return guest.Result{}, &inputError{problems: []string{fmt.Sprintf("arguments: cannot be decoded (%v)", err)}}
		}
		return method(relay, ctx, in)
	}
}
