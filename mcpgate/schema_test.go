package mcpgate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// resolved is the schema that clients are shown, as an independent library understands it.
func resolved(t testing.TB, name string) *jsonschema.Resolved {
	t.Helper()
	for _, tool := range Tools() {
		if tool.Name != name {
			continue
		}
		var s jsonschema.Schema
		if err := json.Unmarshal(tool.InputSchema, &s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r, err := s.Resolve(nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return r
	}
	t.Fatalf("no tool %q", name)
	return nil
}

// expressible is a shape without the rules that JSON Schema has no words for.
func expressible(s shape) shape {
	switch s := s.(type) {
	case text:
		s.Rule = nil
		s.Max, s.MaxBytes = max(s.Max, s.MaxBytes), 0
		return s
	case list:
		s.Of = expressible(s.Of)
		return s
	case object:
		var plain object
		for _, f := range s {
			f.Shape = expressible(f.Shape)
			plain = append(plain, f)
		}
		return plain
	case branches:
		plain := branches{Tag: s.Tag}
		for _, c := range s.Cases {
			plain.Cases = append(plain.Cases, branch{c.Value, expressible(c.Fields).(object)})
		}
		return plain
	}
	return s
}

// generator makes values that are mostly of a shape, and now and then are not.
type generator struct{ *rand.Rand }

func (g generator) rarely() bool { return g.IntN(12) == 0 }

func (g generator) value(s shape) any {
	if g.rarely() {
		return g.stranger()
	}
	switch s := s.(type) {
	case text:
		return g.text(s)
	case number:
		return []any{s.Min, s.Max, s.Min - 1, s.Max + 1, (s.Min + s.Max) / 2, s.Min + 0.5, 1e300}[g.IntN(7)]
	case truth:
		return g.IntN(2) == 0
	case list:
		n := g.IntN(3)
		if s.Max > 0 && g.rarely() {
			n = s.Max + g.IntN(2)
		}
		items := make([]any, n)
		for i := range items {
			items[i] = g.value(s.Of)
		}
		return items
	case object:
		return g.object(s)
	case branches:
		c := s.Cases[g.IntN(len(s.Cases))]
		made := g.object(s.object(c))
		if other := s.Cases[g.IntN(len(s.Cases))]; g.rarely() {
			made[s.Tag] = other.Value
		}
		return made
	}
	return nil
}

func (g generator) object(o object) map[string]any {
	made := map[string]any{}
	for _, f := range o {
		if f.Required && !g.rarely() || !f.Required && g.IntN(3) == 0 {
			made[f.Name] = g.value(f.Shape)
		}
	}
	if g.rarely() {
		made[[]string{"extra", "Guest", "", "action"}[g.IntN(4)]] = g.stranger()
	}
	return made
}

func (g generator) stranger() any {
	return []any{nil, true, 7, -0.5, "", " ", "x", []any{}, map[string]any{}, []any{"x"}}[g.IntN(10)]
}

func (g generator) text(s text) string {
	if len(s.Enum) > 0 {
		return s.Enum[g.IntN(len(s.Enum))]
	}
	picks := []string{"a", "login-test-1", "Upper.Case_1", "out/report.txt", "-lead", "é", "", " ", "\t\n", "a b", imageRef, "image-", strings.Repeat("a", 119) + "\n"}
	for _, limit := range []int{s.Min, s.Max, 36, 37, 64, 65, 101, 102, 120, 121, 160, 161} {
		if limit < 5000 {
			picks = append(picks, strings.Repeat("a", limit), strings.Repeat("a", limit+1))
		}
	}
	return picks[g.IntN(len(picks))]
}

func TestSchemaAndCheckAgree(t *testing.T) {
	for _, tool := range table {
		t.Run(tool.name, func(t *testing.T) {
			schema, plain := resolved(t, tool.name), expressible(tool.input).(object)
			g := generator{rand.New(rand.NewPCG(1, 2))}
			accepted, refused := 0, 0
			for range 1500 {
				raw := toJSON(t, g.object(tool.input))
				var instance any
				if err := json.Unmarshal([]byte(raw), &instance); err != nil {
					t.Fatal(err)
				}
				says := schema.Validate(instance)
				_, err := checkInput(plain, nil, []byte(raw))
				if (says == nil) != (err == nil) {
					t.Fatalf("they differ on %s\nschema: %v\ncheck: %v", raw, says, err)
				}
				if err == nil {
					accepted++
				} else {
					refused++
				}
				if _, err := checkInput(tool.input, tool.rules, []byte(raw)); err == nil && says != nil {
					t.Fatalf("the whole check takes what the schema refuses: %s: %v", raw, says)
				}
			}
			if accepted == 0 || refused == 0 {
				t.Errorf("%d accepted and %d refused: the generator shows only one side", accepted, refused)
			}
		})
	}
}

// Every field of a schema must have a place in the Go type, or a valid call would fail to decode.
func TestEveryAcceptedInputDecodes(t *testing.T) {
	for _, tool := range table {
		g := generator{rand.New(rand.NewPCG(3, 4))}
		relay := &fakeRelay{}
		for range 1500 {
			raw := toJSON(t, g.object(tool.input))
			input, err := checkInput(tool.input, tool.rules, []byte(raw))
			if err != nil {
				continue
			}
			if _, err := tool.call(t.Context(), relay, input); err != nil {
				t.Fatalf("%s: %s: %v", tool.name, raw, err)
			}
		}
		if relay.count() == 0 {
			t.Errorf("%s: no generated input was valid", tool.name)
		}
	}
}

func FuzzCheckInput(f *testing.F) {
	schemas := make([]*jsonschema.Resolved, len(table))
	for i, tool := range table {
		schemas[i] = resolved(f, tool.name)
	}
	for i := range table {
		for _, seed := range []string{goodAcquire, goodScript, `{"guest":"a-1"}`, `{"name":"x"}`, `{"guest":"a","guest":"b"}`, `{"a":"\ud800"}`, `[`, `nul`,
			`{"target":{"source":"reference","imageId":"` + imageRef + `"}}`, `{"guest":"a","names":["\\\u00e9"]}`} {
			f.Add(i, []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, row int, raw []byte) {
		row = ((row % len(table)) + len(table)) % len(table)
		input, err := checkInput(table[row].input, table[row].rules, raw)
		if err != nil {
			var invalid *inputError
			if !errors.As(err, &invalid) {
				t.Fatalf("not a refusal: %v", err)
			}
			return
		}
		var instance any
		if err := json.Unmarshal(input, &instance); err != nil {
			t.Fatalf("accepted %q and made %q of it: %v", raw, input, err)
		}
		if err := schemas[row].Validate(instance); err != nil {
			t.Fatalf("accepted %q, which the schema refuses: %v", raw, err)
		}
		if _, err := table[row].call(context.Background(), &fakeRelay{}, input); err != nil {
			t.Fatalf("accepted %q, which does not decode: %v", raw, err)
		}
	})
}

// The strict reader takes what encoding/json takes, but for the few things it is there to refuse.
func FuzzParseJSON(f *testing.F) {
	for _, seed := range []string{`{}`, `[1,2.5e3,-0,"a\n\u00e9\ud83d\ude00",null,true,{"a":{"b":[]}}]`, `{"a":1,"a":2}`, `"\ud83d"`, `"\ude00\ud83d"`, `"\\ud800"`, "\"\xff\"", `01`, `{"a"}`, `[1 2]`, ` "x" `} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := parseJSON(raw)
		if err == nil && !json.Valid(raw) {
			t.Fatalf("%q is not JSON", raw)
		}
		if err == nil {
			if want, got := canonical(t, raw), canonical(t, []byte(render(v))); want != got {
				t.Fatalf("%q was read as %s", raw, got)
			}
			return
		}
		for _, reason := range []string{"given twice", "surrogate pair", "UTF-8", "nested too deeply"} {
			if strings.Contains(err.Error(), reason) {
				return
			}
		}
		if json.Valid(raw) {
			t.Fatalf("%q is JSON and was refused: %v", raw, err)
		}
	})
}

func canonical(t *testing.T, raw []byte) string {
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return toJSON(t, v)
}

func render(v value) string {
	var parts []string
	switch v.kind {
	case kindObject:
		for _, m := range v.members {
			name, _ := json.Marshal(m.name)
			parts = append(parts, string(name)+":"+render(m.value))
		}
		return "{" + strings.Join(parts, ",") + "}"
	case kindList:
		for _, item := range v.items {
			parts = append(parts, render(item))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case kindString:
		raw, _ := json.Marshal(v.text)
		return string(raw)
	case kindNull:
		return "null"
	}
	return v.text
}

func ExampleTools() {
	for _, tool := range Tools() {
		fmt.Println(tool.Name+":", tool.Title)
	}
	// Output:
	// relay_search: Search installed applications
	// relay_probe: Probe host and guest readiness
	// relay_acquire: Acquire a VM
	// relay_stage: Stage the guest runtime
	// relay_script: Run a guest script
	// relay_image: Retrieve a saved image
	// relay_extract: Extract declared outputs
	// relay_finish: Finish and deliver evidence
	// relay_release: Release the VM
	// relay_status: Show relay status
}
