package mcpgate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A shape describes the values that one place of an input may hold. It is the only description there is: the schema that
// a client sees and the check of every call are both made from it.
type shape interface {
	// schema renders the shape as JSON Schema (2020-12).
	schema() schema
	// wants says in words what to send.
	wants() string
	// check reports every way in which v is not of the shape.
	check(path string, v value, report reporter)
}

// reporter takes one problem: what is wrong at path, and what to send instead.
type reporter func(path, problem, wants string)

// schema is a JSON object that keeps the order of its members.
type schema []schemaMember

type schemaMember struct {
	name  string
	value any
}

func (s schema) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, m := range s {
		if i > 0 {
			out.WriteByte(',')
		}
		name, err := encodeJSON(m.name)
		if err != nil {
			return nil, err
		}
		body, err := encodeJSON(m.value)
		if err != nil {
			return nil, err
		}
		out.Write(name)
		out.WriteByte(':')
		out.Write(body)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// encodeJSON is json.Marshal without HTML escaping.
func encodeJSON(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}

// text is a string. Min and Max count code points, MaxBytes UTF-8 bytes; zero means no bound.
type text struct {
	Min, Max int
	MaxBytes int
	NonBlank bool
	Pattern  *regexp.Regexp
	Like     string                    // what the pattern means, in words
	Enum     []string                  // nothing else, if given
	Rule     func(string) (bad string) // what JSON Schema cannot say
}

func (t text) schema() schema {
	s := schema{{"type", "string"}}
	if len(t.Enum) > 0 {
		return append(s, schemaMember{"enum", t.Enum})
	}
	if t.Min > 0 {
		s = append(s, schemaMember{"minLength", t.Min})
	}
	if limit := max(t.Max, t.MaxBytes); limit > 0 {
		s = append(s, schemaMember{"maxLength", limit})
	}
	switch {
	case t.Pattern != nil:
		s = append(s, schemaMember{"pattern", t.Pattern.String()})
	case t.NonBlank:
		s = append(s, schemaMember{"pattern", `\S`})
	}
	return s
}

func (t text) wants() string {
	if len(t.Enum) > 0 {
		quoted := make([]string, len(t.Enum))
		for i, word := range t.Enum {
			quoted[i] = strconv.Quote(word)
		}
		return strings.Join(quoted, " or ")
	}
	words := "a string"
	switch {
	case t.Like != "":
		words = t.Like
	case t.MaxBytes > 0:
		words = fmt.Sprintf("a string of at most %d UTF-8 bytes", t.MaxBytes)
	case t.Max > 0:
		words = fmt.Sprintf("a string of %d to %d characters", t.Min, t.Max)
	case t.Min > 0:
		words = "a string that is not empty"
	}
	if t.NonBlank && t.Like == "" {
		words += " that is not blank"
	}
	return words
}

func (t text) check(path string, v value, report reporter) {
	if v.kind != kindString {
		report(path, "is "+describe(v), t.wants())
		return
	}
	if bad := t.fault(v.text); bad != "" {
		report(path, bad, t.wants())
	}
}

// fault names the first rule that s breaks.
func (t text) fault(s string) string {
	if len(t.Enum) > 0 {
		for _, word := range t.Enum {
			if s == word {
				return ""
			}
		}
		return fmt.Sprintf("is %q", short(s))
	}
	length := utf8.RuneCountInString(s)
	switch {
	case s == "" && t.Min > 0:
		return "is empty"
	case length < t.Min, t.Max > 0 && length > t.Max:
		return fmt.Sprintf("has %d characters", length)
	case t.MaxBytes > 0 && len(s) > t.MaxBytes:
		return fmt.Sprintf("has %d bytes", len(s))
	case t.NonBlank && blank(s):
		return "is blank"
	case t.Pattern != nil && !t.Pattern.MatchString(s):
		return fmt.Sprintf("is %q", short(s))
	case t.Rule != nil:
		return t.Rule(s)
	}
	return ""
}

// blank says that s has nothing but what ECMAScript, and so JSON Schema, calls white space.
func blank(s string) bool {
	const white = "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
	return strings.Trim(s, white) == ""
}

// number is a JSON number within bounds, both included.
type number struct {
	Min, Max float64
	Whole    bool
}

func (n number) schema() schema {
	kind := "number"
	if n.Whole {
		kind = "integer"
	}
	return schema{{"type", kind}, {"minimum", n.Min}, {"maximum", n.Max}}
}

func (n number) wants() string {
	kind := "a number"
	if n.Whole {
		kind = "an integer"
	}
	return fmt.Sprintf("%s from %s to %s", kind, plainNumber(n.Min), plainNumber(n.Max))
}

func (n number) check(path string, v value, report reporter) {
	if v.kind != kindNumber {
		report(path, "is "+describe(v), n.wants())
		return
	}
	f, err := strconv.ParseFloat(v.text, 64)
	if err != nil || f < n.Min || f > n.Max || n.Whole && f != math.Trunc(f) {
		report(path, "is "+short(v.text), n.wants())
	}
}

func plainNumber(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// truth is a boolean.
type truth struct{}

func (truth) schema() schema { return schema{{"type", "boolean"}} }
func (truth) wants() string  { return "true or false" }

func (t truth) check(path string, v value, report reporter) {
	if v.kind != kindBool {
		report(path, "is "+describe(v), t.wants())
	}
}

// list is an array of at most Max items; zero means no bound.
type list struct {
	Of  shape
	Max int
}

func (l list) schema() schema {
	s := schema{{"type", "array"}, {"items", l.Of.schema()}}
	if l.Max > 0 {
		s = append(s, schemaMember{"maxItems", l.Max})
	}
	return s
}

func (l list) wants() string {
	if l.Max > 0 {
		return fmt.Sprintf("an array of at most %d items, each %s", l.Max, l.Of.wants())
	}
	return "an array, each item " + l.Of.wants()
}

func (l list) check(path string, v value, report reporter) {
	if v.kind != kindList {
		report(path, "is "+describe(v), l.wants())
		return
	}
	if l.Max > 0 && len(v.items) > l.Max {
		report(path, fmt.Sprintf("has %d items", len(v.items)), l.wants())
		return
	}
	for i, item := range v.items {
		l.Of.check(fmt.Sprintf("%s[%d]", path, i), item, report)
	}
}

// describe names what a client sent, for the place where it does not belong.
func describe(v value) string {
	switch v.kind {
	case kindBool, kindNumber:
		return short(v.text)
	case kindString:
		return fmt.Sprintf("the string %q", short(v.text))
	}
	return string(v.kind)
}
