package mcpgate

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// T1, for the tools there are now.
func TestEveryToolIsWhollyDescribed(t *testing.T) {
	names := map[string]bool{}
	for _, tool := range Tools() {
		if names[tool.Name] || !regexp.MustCompile(`^relay_[a-z_]+$`).MatchString(tool.Name) {
			t.Errorf("bad or repeated name %q", tool.Name)
		}
		names[tool.Name] = true
		if tool.Title == "" || tool.Description == "" {
			t.Errorf("%s has no title or no description", tool.Name)
		}
		var root map[string]any
		if err := json.Unmarshal(tool.InputSchema, &root); err != nil {
			t.Fatalf("%s: %v", tool.Name, err)
		}
		if root["type"] != "object" || root["additionalProperties"] != false {
			t.Errorf("%s: the schema is not a closed object", tool.Name)
		}
		for _, word := range []string{"anyOf", "oneOf", "allOf"} {
			if root[word] != nil {
				t.Errorf("%s: the schema has a root %s", tool.Name, word)
			}
		}
		properties := root["properties"].(map[string]any)
		for _, word := range []string{"action", "kind"} {
			if properties[word] != nil {
				t.Errorf("%s has a field %s", tool.Name, word)
			}
		}
	}
	want := []string{"relay_search", "relay_probe", "relay_acquire", "relay_stage", "relay_script", "relay_image", "relay_extract",
		"relay_finish", "relay_release", "relay_status"}
	if len(names) != len(want) {
		t.Errorf("%d tools, want %d", len(names), len(want))
	}
	for _, name := range want {
		if !names[name] {
			t.Errorf("no %s", name)
		}
	}
}

// T2.
func TestHintsAreThoseOfTheContract(t *testing.T) {
	reads := []string{"relay_search", "relay_probe", "relay_image", "relay_status"}
	ends := []string{"relay_finish", "relay_release"}
	for _, tool := range Tools() {
		want := Annotations{
			ReadOnlyHint: slices.Contains(reads, tool.Name), IdempotentHint: slices.Contains(reads, tool.Name),
			DestructiveHint: slices.Contains(ends, tool.Name), OpenWorldHint: tool.Name == "relay_script",
		}
		if tool.Annotations != want {
			t.Errorf("%s: %+v, want %+v", tool.Name, tool.Annotations, want)
		}
		raw := toJSON(t, tool.Annotations)
		for _, hint := range []string{"readOnlyHint", "idempotentHint", "destructiveHint", "openWorldHint"} {
			if !strings.Contains(raw, `"`+hint+`":`) {
				t.Errorf("%s: %s is not given", tool.Name, hint)
			}
		}
	}
}

func TestActingToolsRepeatHowToEnd(t *testing.T) {
	for _, tool := range Tools() {
		if tool.Annotations.ReadOnlyHint && tool.Name != "relay_probe" {
			continue
		}
		if !strings.Contains(tool.Description, "relay_finish") || !strings.Contains(tool.Description, "relay_release") {
			if tool.Name != "relay_finish" && tool.Name != "relay_release" {
				t.Errorf("%s does not say how a guest is ended", tool.Name)
			}
		}
		if !strings.Contains(strings.ToLower(tool.Description), "before you give your answer") {
			t.Errorf("%s does not say when a guest is to be ended", tool.Name)
		}
	}
	for _, name := range []string{"relay_probe", "relay_acquire"} {
		tool, _ := findTool(name)
		if !strings.Contains(tool.description, workflow) {
			t.Errorf("%s does not tell the order of work", name)
		}
	}
}

func TestTextsNameOnlyToolsThatExist(t *testing.T) {
	texts := []string{Instructions()}
	for _, tool := range Tools() {
		texts = append(texts, tool.Description, string(tool.InputSchema))
	}
	for _, text := range texts {
		for _, name := range regexp.MustCompile(`relay_[a-z_]+`).FindAllString(text, -1) {
			if _, ok := findTool(name); !ok {
				t.Errorf("%q is named and does not exist", name)
			}
		}
		if strings.Contains(text, "console") {
			t.Errorf("a text speaks of consoles, which do not exist: %s", text)
		}
		if strings.Contains(text, "%!") {
			t.Errorf("a text is badly formatted: %s", text)
		}
	}
	for _, tool := range Tools() {
		if !strings.Contains(Instructions(), tool.Name) {
			t.Errorf("the instructions do not name %s", tool.Name)
		}
	}
}
