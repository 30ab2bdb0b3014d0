package mcpgate

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const docPath = "../docs/tools.md"

// docs/tools.md is made from the table; go test ./mcpgate -run ToolsPage -update writes it anew.
func TestToolsPageIsThatOfTheTable(t *testing.T) {
	want := toolsPage(t)
	if *update {
		if err := os.WriteFile(docPath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(docPath)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), want); diff != "" {
		t.Errorf("%s is out of date; run this test with -update:\n%s", docPath, diff)
	}
}

func toolsPage(t *testing.T) string {
	var page strings.Builder
	page.WriteString("# Tools\n\n<!-- Made from the table in mcpgate; do not edit. -->\n\n" +
		"The tools of the MCP server, as a client is shown them. Every input is a closed object: an unknown field, a field given twice and a\n" +
		"value of another type are refused before anything is done. Lengths of texts count characters (Unicode code points), the size of code counts\n" +
		"UTF-8 bytes. `mcp-relay --schema` prints the same table as JSON, `mcp-relay --instructions` the text below.\n\n" +
		"| tool | title | read-only | idempotent | destructive | open world |\n|---|---|---|---|---|---|\n")
	for _, tool := range Tools() {
		a := tool.Annotations
		fmt.Fprintf(&page, "| [%s](#%s) | %s | %s | %s | %s | %s |\n", tool.Name, tool.Name, tool.Title,
			yes(a.ReadOnlyHint), yes(a.IdempotentHint), yes(a.DestructiveHint), yes(a.OpenWorldHint))
	}
	fmt.Fprintf(&page, "\n## Instructions\n\n%s\n", Instructions())
	for _, row := range table {
		raw, err := json.MarshalIndent(row.definition().InputSchema, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&page, "## %s\n\n**%s.** %s\n\n%s<details><summary>schema</summary>\n\n```json\n%s\n```\n\n</details>\n\n",
			row.name, row.title, row.description, fieldTable(row.input), raw)
	}
	return strings.TrimSuffix(page.String(), "\n")
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func fieldTable(fields object) string {
	if len(fields) == 0 {
		return "No fields.\n\n"
	}
	var out strings.Builder
	out.WriteString("| field | required | value | meaning |\n|---|---|---|---|\n")
	writeFields(&out, "", fields)
	return out.String() + "\n"
}

func writeFields(out *strings.Builder, prefix string, fields object) {
	for _, f := range fields {
		name := prefix + f.Name
		fmt.Fprintf(out, "| `%s` | %s | %s | %s |\n", name, yes(f.Required), kindOf(f.Shape), f.Doc)
		switch s := f.Shape.(type) {
		case object:
			writeFields(out, name+".", s)
		case list:
			if of, ok := s.Of.(object); ok {
				writeFields(out, name+"[].", of)
			}
		case branches:
			for _, c := range s.Cases {
				writeFields(out, fmt.Sprintf("%s (%s).", name, c.Value), c.Fields)
			}
		}
	}
}

// kindOf is short for those shapes whose fields follow as rows of their own.
func kindOf(s shape) string {
	switch s := s.(type) {
	case object:
		return "an object"
	case branches:
		return fmt.Sprintf("an object, its form by `%s`", s.Tag)
	case list:
		if _, ok := s.Of.(object); ok && s.Max > 0 {
			return fmt.Sprintf("an array of at most %d objects", s.Max)
		} else if ok {
			return "an array of objects"
		}
	}
	return s.wants()
}
