package mcpgate

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds nesting; the deepest legal input has four levels.
const maxDepth = 32

type valueKind string

const (
	kindNull   valueKind = "null"
	kindBool   valueKind = "a boolean"
	kindNumber valueKind = "a number"
	kindString valueKind = "a string"
	kindList   valueKind = "an array"
	kindObject valueKind = "an object"
)

// value is one JSON value as it was sent: nothing is rounded, merged or replaced on the way in.
type value struct {
	kind    valueKind
	text    string // the decoded string, or the literal of a number or boolean
	items   []value
	members []member
}

type member struct {
	name  string
	value value
}

// get finds a member of an object.
func (v value) get(name string) (value, bool) {
	for _, m := range v.members {
		if m.name == name {
			return m.value, true
		}
	}
	return value{}, false
}

// parseError says where and why a text is not the JSON we take.
type parseError struct {
	path string
	why  string
}

func (e *parseError) Error() string { return at(e.path) + e.why }

// parseJSON reads exactly one JSON value. Unlike encoding/json it refuses what would otherwise be changed silently: a key
// given twice, a lone surrogate, bytes that are not UTF-8.
func parseJSON(data []byte) (value, error) {
	p := &parser{data: data}
	v, err := p.value("", 0)
	if err != nil {
		return value{}, err
	}
	p.space()
	if p.pos != len(p.data) {
		return value{}, &parseError{why: "something follows the JSON value"}
	}
	return v, nil
}

type parser struct {
	data []byte
	pos  int
}

func (p *parser) space() {
	for p.pos < len(p.data) && strings.IndexByte(" \t\r\n", p.data[p.pos]) >= 0 {
		p.pos++
	}
}

func (p *parser) peek() byte {
	if p.pos < len(p.data) {
		return p.data[p.pos]
	}
	return 0
}

func (p *parser) value(path string, depth int) (value, error) {
	if depth > maxDepth {
		return value{}, &parseError{path, "nested too deeply"}
	}
	p.space()
	switch p.peek() {
	case '{':
		return p.object(path, depth)
	case '[':
		return p.list(path, depth)
	case '"':
		text, err := p.str(path)
		return value{kind: kindString, text: text}, err
	default:
		return p.literal(path)
	}
}

func (p *parser) object(path string, depth int) (value, error) {
	v := value{kind: kindObject}
	seen := map[string]bool{}
	err := p.sequence(path, '}', func() error {
		if p.peek() != '"' {
			return &parseError{path, "malformed JSON: a key must be a string"}
		}
		name, err := p.str(path)
		if err != nil {
			return err
		}
		child := join(path, name)
		if seen[name] {
			return &parseError{child, "given twice; send it once"}
		}
		seen[name] = true
		if p.space(); p.peek() != ':' {
			return &parseError{child, "malformed JSON: a key needs a value"}
		}
		p.pos++
		inner, err := p.value(child, depth+1)
		v.members = append(v.members, member{name, inner})
		return err
	})
	return v, err
}

func (p *parser) list(path string, depth int) (value, error) {
	v := value{kind: kindList}
	err := p.sequence(path, ']', func() error {
		item, err := p.value(fmt.Sprintf("%s[%d]", path, len(v.items)), depth+1)
		v.items = append(v.items, item)
		return err
	})
	return v, err
}

// sequence reads from an opening bracket to its end, with one call of element between commas.
func (p *parser) sequence(path string, end byte, element func() error) error {
	p.pos++
	if p.space(); p.peek() == end {
		p.pos++
		return nil
	}
	for {
		p.space()
		if err := element(); err != nil {
			return err
		}
		p.space()
		c := p.peek()
		if c != ',' && c != end {
			return &parseError{path, "malformed JSON: unterminated or missing a comma"}
		}
		p.pos++
		if c == end {
			return nil
		}
	}
}

// str reads a string; the decoder does the unescaping, and what it would replace with U+FFFD is refused before.
func (p *parser) str(path string) (string, error) {
	start := p.pos
	p.pos++
	for p.pos < len(p.data) && p.data[p.pos] != '"' {
		if p.data[p.pos] == '\\' {
			p.pos++
		}
		p.pos++
	}
	if p.pos >= len(p.data) {
		p.pos = len(p.data)
		return "", &parseError{path, "malformed JSON: unterminated string"}
	}
	p.pos++
	raw := p.data[start:p.pos]
	if !utf8.Valid(raw) {
		return "", &parseError{path, "not valid UTF-8"}
	}
	if loneSurrogate(raw) {
		return "", &parseError{path, "holds half of a surrogate pair, which is not a character"}
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return "", &parseError{path, "malformed JSON: bad string"}
	}
	return text, nil
}

// loneSurrogate finds a \uD800..\uDFFF escape without its other half.
func loneSurrogate(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		unit, ok := escapedUnit(raw[i:])
		if !ok {
			i++ // the escaped character, so that \\u is not taken for \u
			continue
		}
		i += 5
		if unit < 0xD800 || unit > 0xDFFF {
			continue
		}
		low, ok := escapedUnit(raw[i+1:])
		if unit > 0xDBFF || !ok || low < 0xDC00 || low > 0xDFFF {
			return true
		}
		i += 6
	}
	return false
}

// escapedUnit reads \uXXXX at the start of raw.
func escapedUnit(raw []byte) (unit rune, ok bool) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	for _, c := range raw[2:6] {
		digit := strings.IndexByte("0123456789abcdef", c|0x20)
		if digit < 0 {
			return 0, false
		}
		unit = unit<<4 | rune(digit)
	}
	return unit, true
}

// literal reads null, true, false or a number.
func (p *parser) literal(path string) (value, error) {
	start := p.pos
	for p.pos < len(p.data) && strings.IndexByte(" \t\r\n,:]}[{\"", p.data[p.pos]) < 0 {
		p.pos++
	}
	raw := p.data[start:p.pos]
	if len(raw) == 0 || !json.Valid(raw) {
		return value{}, &parseError{path, "malformed JSON"}
	}
	v := value{kind: kindNumber, text: string(raw)}
	switch raw[0] {
	case 'n':
		v.kind = kindNull
	case 't', 'f':
		v.kind = kindBool
	}
	return v, nil
}

// join makes the path of a member; a name that is no plain word is quoted and kept short.
func join(path, name string) string {
	if !plainName(name) {
		name = fmt.Sprintf("%q", short(name))
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

func plainName(name string) bool {
	if name == "" || len(name) > 64 {
		return false
	}
	for _, c := range []byte(name) {
		if c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return true
}

// at leads a message with the field it is about.
func at(path string) string {
	if path == "" {
		return ""
	}
	return path + ": "
}

// short cuts what a client sent before it is quoted back.
func short(text string) string {
	const limit = 40
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	return string(runes[:limit]) + "..."
}
