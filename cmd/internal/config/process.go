package config

import (
	"fmt"
	"os"
)

// FromProcess is the Source of this process. The working directory must be known.
func FromProcess() (Source, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return Source{}, fmt.Errorf("cannot tell the working directory: %w", err)
	}
	home, _ := os.UserHomeDir() // no home is no fault here: Load says so where it matters
	return Source{Lookup: os.LookupEnv, Cwd: cwd, Home: home}, nil
}

// Environ is the environment for a process of our own, with the given variables replaced.
func Environ(set map[string]string) []string {
	env := make([]string, 0, len(set)+16)
	for _, kv := range os.Environ() {
		name := kv
		for i := range kv {
			if kv[i] == '=' && i > 0 {
				name = kv[:i]
				break
			}
		}
		if _, replaced := set[name]; !replaced {
			env = append(env, kv)
		}
	}
	for name, value := range set {
		env = append(env, name+"="+value)
	}
	return env
}
