package mcpgate

import (
	"fmt"
	"strings"
)

// field is one member of an object.
type field struct {
	Name     string
	Required bool
	Doc      string
	Shape    shape
}

// object is a closed JSON object: nothing but its fields.
type object []field

func (o object) schema() schema {
	properties := schema{}
	var required []string
	for _, f := range o {
		inner := f.Shape.schema()
		if f.Doc != "" {
			inner = append(inner, schemaMember{"description", f.Doc})
		}
		properties = append(properties, schemaMember{f.Name, inner})
		if f.Required {
			required = append(required, f.Name)
		}
	}
	s := schema{{"type", "object"}, {"properties", properties}}
	if len(required) > 0 {
		s = append(s, schemaMember{"required", required})
	}
	return append(s, schemaMember{"additionalProperties", false})
}

func (o object) wants() string {
	if len(o) == 0 {
		return "an object without fields"
	}
	return "an object of " + o.names()
}

// names lists the fields, those that may be left out with a question mark.
func (o object) names() string {
	names := make([]string, len(o))
	for i, f := range o {
		names[i] = f.Name
		if !f.Required {
			names[i] += "?"
		}
	}
	return strings.Join(names, ", ")
}

func (o object) check(path string, v value, report reporter) {
	if v.kind != kindObject {
		report(path, "is "+describe(v), o.wants())
		return
	}
	for _, m := range v.members {
		if _, known := o.find(m.name); !known {
			report(join(path, m.name), "is not a field of this tool", o.unknownHelp(path))
		}
	}
	for _, f := range o {
		inner, given := v.get(f.Name)
		switch {
		case given:
			f.Shape.check(join(path, f.Name), inner, report)
		case f.Required:
			report(join(path, f.Name), "is missing", f.Shape.wants())
		}
	}
}

func (o object) unknownHelp(path string) string {
	switch {
	case len(o) == 0:
		return "no fields at all"
	case path == "":
		return "only " + o.names()
	default:
		return fmt.Sprintf("only %s in %s", o.names(), path)
	}
}

func (o object) find(name string) (field, bool) {
	for _, f := range o {
		if f.Name == name {
			return f, true
		}
	}
	return field{}, false
}

// branches is an object whose field Tag says which of several closed forms it has.
type branches struct {
	Tag   string
	Cases []branch
}

type branch struct {
	Value  string
	Fields object
}

// object of one branch, with its tag.
func (b branches) object(c branch) object {
	tag := field{Name: b.Tag, Required: true, Shape: text{Enum: []string{c.Value}}}
	return append(object{tag}, c.Fields...)
}

func (b branches) schema() schema {
	forms := make([]schema, len(b.Cases))
	for i, c := range b.Cases {
		forms[i] = b.object(c).schema()
	}
	return schema{{"type", "object"}, {"oneOf", forms}}
}

func (b branches) wants() string {
	forms := make([]string, len(b.Cases))
	for i, c := range b.Cases {
		forms[i] = fmt.Sprintf("{%s: %q, %s}", b.Tag, c.Value, c.Fields.names())
	}
	return "exactly one of " + strings.Join(forms, ", ")
}

func (b branches) check(path string, v value, report reporter) {
	if v.kind != kindObject {
		report(path, "is "+describe(v), b.wants())
		return
	}
	tag, given := v.get(b.Tag)
	for _, c := range b.Cases {
		if given && tag.kind == kindString && tag.text == c.Value {
			b.object(c).check(path, v, report)
			return
		}
	}
	if !given {
		report(join(path, b.Tag), "is missing", b.wants())
		return
	}
	report(join(path, b.Tag), "is "+describe(tag), b.wants())
}
