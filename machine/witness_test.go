package machine_test

import (
	"slices"
	"testing"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// An answer in doubt is never an empty list: that would prove a destruction that did not happen.
func TestWitnessNeverGuesses(t *testing.T) {
	cases := []struct {
		name, script string
		want         []string // nil means an error
	}{
		{"a list", `echo '[{"Name":"a","State":"running"},{"Name":"b"}]'`, []string{"a", "b"}},
		{"an empty list", `echo '[]'`, []string{}},
		{"nothing", `true`, nil},
		{"null", `echo null`, nil},
		{"an object", `echo '{}'`, nil},
		{"an entry without a name", `echo '[{"State":"running"}]'`, nil},
		{"a name in small letters", `echo '[{"name":"a"}]'`, nil},
		{"a name that is null", `echo '[{"Name":null}]'`, nil},
		{"an entry that is null", `echo '[null]'`, nil},
		{"a list before a failure", `echo '[]'; exit 3`, nil},
		{"something after the list", `echo '[] x'`, nil},
		{"more than 4 MiB", `echo '['; head -c 5000000 /dev/zero | tr '\0' ' '; echo ']'`, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := machine.CommandWitness{Argv: []string{"/bin/sh", "-c", c.script}}.Machines(t.Context())
			if (err == nil) != (c.want != nil) || !slices.Equal(got, c.want) {
				t.Errorf("Machines = %q, %v, want %q", got, err, c.want)
			}
		})
	}
	if _, err := (machine.CommandWitness{}).Machines(t.Context()); err == nil {
		t.Error("no lister at all proves destruction")
	}
}
