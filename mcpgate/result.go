package mcpgate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-1e4c9d81/mcp-relay/guest"
)

// Bounds of a rendered text; what is beyond stays in a file.
const (
	maxResultLines = 2000
	maxResultBytes = 50 << 10
)

// identity is the line that leads an image-bearing result. It stands outside the bounds, so that it survives any output.
type identity struct {
	ImageDelivery   *guest.ImageDelivery `json:"imageDelivery"`
	ExecutionFailed bool                 `json:"executionFailed"`
}

// render makes the client's result: the text, then the picture where there is one.
func (s *Server) render(result guest.Result) *mcp.CallToolResult {
	body, err := indented(result.Value)
	if err != nil {
		s.options.Log.Error().Str("event", "mcp.unrenderable-result").Err(err).Send()
		return errorResult("The operation ended, but its result cannot be rendered. It may have had an effect: look at relay_status before you go on, " +
			"and do not send the same call again.")
	}
	whole := s.cut(body)
	failed := result.Failed || imageFailed(result.Delivery)
	if result.Delivery != nil {
		failed = failed || result.Delivery.ExecutionFailed
		lead, err := encodeJSON(identity{result.Delivery, result.Delivery.ExecutionFailed})
		if err != nil {
			s.options.Log.Error().Str("event", "mcp.unrenderable-result").Err(err).Send()
			lead = []byte(`{"imageDelivery":{"status":"unknown"}}`)
		}
		whole = string(lead) + "\n" + whole
	}
	content := []mcp.Content{&mcp.TextContent{Text: whole}}
	if len(result.Image) > 0 {
		content = append(content, &mcp.ImageContent{Data: result.Image, MIMEType: result.MimeType})
	}
	return &mcp.CallToolResult{Content: content, IsError: failed}
}

func errorResult(message string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: message}}, IsError: true}
}

// indented is JSON as results show it: two spaces, no HTML escaping.
func indented(v any) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// cut shortens a text to the bounds and says where the whole of it is.
func (s *Server) cut(whole string) string {
	shown := truncate(whole)
	if len(shown) == len(whole) {
		return whole
	}
	if s.options.ResultDir == "" {
		return shown + fmt.Sprintf("\n[cut after %d of %d bytes; the rest is not kept]", len(shown), len(whole))
	}
	path, err := keepResult(s.options.ResultDir, whole)
	if err != nil {
		s.options.Log.Error().Str("event", "mcp.result-not-kept").Err(err).Send()
		return shown + fmt.Sprintf("\n[cut after %d of %d bytes; the rest could not be kept on disk]", len(shown), len(whole))
	}
	return shown + fmt.Sprintf("\n[cut after %d of %d bytes; the whole result is in %s]", len(shown), len(whole), path)
}

// truncate keeps the first lines of a text, and of these the first bytes, never part of a character.
func truncate(whole string) string {
	end := 0
	for lines := 0; lines < maxResultLines; lines++ {
		next := strings.IndexByte(whole[end:], '\n')
		if next < 0 {
			end = len(whole)
			break
		}
		end += next + 1
	}
	shown := whole[:end]
	if end < len(whole) {
		shown = strings.TrimSuffix(shown, "\n")
	}
	if len(shown) <= maxResultBytes {
		return shown
	}
	cut := maxResultBytes
	for cut > 0 && !utf8.RuneStart(shown[cut]) {
		cut--
	}
	return shown[:cut]
}
