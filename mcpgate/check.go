package mcpgate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// invalidInput leads the text of every call that was refused by its input alone.
const invalidInput = "invalid relay input"

// maxProblems bounds how many faults of one call are told.
const maxProblems = 8

// inputError is a call refused by its input: nothing was done.
type inputError struct{ problems []string }

func (e *inputError) Error() string {
	shown := e.problems
	if len(shown) > maxProblems {
		shown = append(shown[:maxProblems:maxProblems], fmt.Sprintf("and %d more", len(e.problems)-maxProblems))
	}
	return invalidInput + ": " + strings.Join(shown, "\nalso: ") + "\nNothing was done. Correct the call and send it again."
}

// rule is a condition between fields, which JSON Schema without root combinators cannot say. It sees values of their shape.
type rule func(in value, report reporter)

// checkInput checks raw arguments against a tool's fields and rules, and returns them with every number in the form that
// its Go type decodes. An absent or null argument object is an empty one.
func checkInput(fields object, rules []rule, raw []byte) ([]byte, error) {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || string(trimmed) == "null" {
		raw = []byte("{}")
	}
	in, err := parseJSON(raw)
	if err != nil {
		return nil, &inputError{problems: []string{err.Error()}}
	}
	var problems []string
	report := func(path, problem, wants string) {
		if path == "" {
			path = "arguments"
		}
		problems = append(problems, fmt.Sprintf("%s: %s; send %s", path, problem, wants))
	}
	fields.check("", in, report)
	if len(problems) == 0 {
		for _, r := range rules {
			r(in, report)
		}
	}
	if len(problems) > 0 {
		return nil, &inputError{problems: problems}
	}
	return normal(fields, in)
}

// normal renders a checked input again, whole numbers written as integers (1e3 and 1000.0 are integers to JSON Schema).
func normal(s shape, v value) ([]byte, error) {
	var out bytes.Buffer
	if err := writeNormal(&out, s, v); err != nil {
		return nil, fmt.Errorf("cannot render a checked input: %w", err)
	}
	return out.Bytes(), nil
}

func writeNormal(out *bytes.Buffer, s shape, v value) error {
	switch s := s.(type) {
	case object:
		return writeObject(out, s, v)
	case branches:
		tag, _ := v.get(s.Tag)
		for _, c := range s.Cases {
			if c.Value == tag.text {
				return writeObject(out, s.object(c), v)
			}
		}
		return fmt.Errorf("no branch %q", tag.text)
	case list:
		out.WriteByte('[')
		for i, item := range v.items {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := writeNormal(out, s.Of, item); err != nil {
				return err
			}
		}
		out.WriteByte(']')
	case number:
		out.WriteString(numeral(s, v.text))
	case text:
		quoted, err := json.Marshal(v.text)
		out.Write(quoted)
		return err
	default:
		out.WriteString(v.text)
	}
	return nil
}

func writeObject(out *bytes.Buffer, fields object, v value) error {
	out.WriteByte('{')
	for i, m := range v.members {
		if i > 0 {
			out.WriteByte(',')
		}
		f, _ := fields.find(m.name)
		fmt.Fprintf(out, "%q:", m.name)
		if err := writeNormal(out, f.Shape, m.value); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}

func numeral(n number, literal string) string {
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil || !n.Whole {
		return literal
	}
	return strconv.FormatInt(int64(f), 10)
}
