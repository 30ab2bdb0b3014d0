package mcpgate

import (
	"bytes"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// envelope is one JSON-RPC message with its parts as they were sent. The id stays the client's own text: numbers beyond
// what a float holds and fractions come back as they came.
type envelope struct {
	id     json.RawMessage // nil for a notification
	method string
	params json.RawMessage
}

// refusal is a message that is answered at once, by its id where it has one.
type refusal struct {
	id    json.RawMessage // nil is rendered as null
	error *jsonrpc.Error
}

func refuse(id json.RawMessage, code int64, message string) *refusal {
	return &refusal{id: id, error: &jsonrpc.Error{Code: code, Message: message}}
}

// readLine takes a line apart. A batch gives several messages, each of which is answered on a line of its own. Answers that a
// client sends are dropped, since this server asks nothing.
func readLine(l line) (messages []envelope, refusals []*refusal) {
	if l.long {
		return nil, []*refusal{refuse(findID(l.data), jsonrpc.CodeInvalidRequest,
			"the message is longer than 16 MiB and was not read; keep large content in project files and name them")}
	}
	if !json.Valid(l.data) {
		return nil, []*refusal{refuse(findID(l.data), jsonrpc.CodeParseError,
			"the line is not valid JSON and was not read; send each message as one line of JSON")}
	}
	parts := []json.RawMessage{l.data}
	if l.data[0] == '[' {
		if err := json.Unmarshal(l.data, &parts); err != nil || len(parts) == 0 {
			return nil, []*refusal{refuse(nil, jsonrpc.CodeInvalidRequest, "the batch holds no message")}
		}
	}
	for _, part := range parts {
		message, bad := readMessage(part)
		switch {
		case bad != nil:
			refusals = append(refusals, bad)
		case message != nil:
			messages = append(messages, *message)
		}
	}
	return messages, refusals
}

// readMessage reads one message; both results are nil for an answer.
func readMessage(raw json.RawMessage) (*envelope, *refusal) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return nil, refuse(nil, jsonrpc.CodeInvalidRequest, "a message must be a JSON object")
	}
	id, given := members["id"]
	if given && !usableID(id) {
		return nil, refuse(nil, jsonrpc.CodeInvalidRequest, "an id must be a string or a number")
	}
	if version := members["jsonrpc"]; string(version) != `"2.0"` {
		return nil, refuse(id, jsonrpc.CodeInvalidRequest, `a message must have "jsonrpc": "2.0"`)
	}
	method, asks := members["method"]
	if !asks {
		if members["result"] != nil || members["error"] != nil {
			return nil, nil
		}
		return nil, refuse(id, jsonrpc.CodeInvalidRequest, "a message must have a method")
	}
	message := &envelope{id: id, params: members["params"]}
	if json.Unmarshal(method, &message.method) != nil || method[0] != '"' {
		return nil, refuse(id, jsonrpc.CodeInvalidRequest, "a method must be a string")
	}
	return message, nil
}

func usableID(id json.RawMessage) bool {
	return len(id) > 0 && (id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9')
}

// idKey makes ids that a client holds to be the same the same.
func idKey(id json.RawMessage) string {
	var text string
	if len(id) > 0 && id[0] == '"' && json.Unmarshal(id, &text) == nil {
		return "string " + text
	}
	return "number " + string(id)
}

// findID looks for the id of a message that cannot be read as a whole, so that its sender learns which one it was.
func findID(data []byte) json.RawMessage {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if open, err := decoder.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil
		}
		var member json.RawMessage
		if decoder.Decode(&member) != nil {
			return nil
		}
		if key == "id" && usableID(member) {
			return member
		}
	}
	return nil
}
