package mcpgate

import "encoding/json"

// Annotations are the four hints of a tool, always given.
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

// Tools are the definitions of all tools, in the order of the table.
func Tools() []Tool { return nil }

// Instructions is the text given to a client at initialize.
func Instructions() string { return "" }
