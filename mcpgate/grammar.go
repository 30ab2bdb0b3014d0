package mcpgate

import (
	"fmt"
	"regexp"
	"strings"
)

// Grammars that return in several tools.
var (
	guestName = text{Pattern: regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`), Like: "the name that relay_acquire answered"}
	idToken   = text{
		Pattern: regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,119}$`),
		Like:    "an id of 1 to 120 letters, digits, _ . - that begins with a letter or digit",
	}
	executionID = text{
		Pattern: regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,159}$`),
		Like:    "an execution id as a run answered it",
	}
	imageID  = text{Pattern: regexp.MustCompile(`^image-[a-f0-9]{64}$`), Like: "an imageId as a result gave it (image- and 64 hexadecimal digits)"}
	taskSlug = text{
		Pattern: regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,35}$`),
		Like:    "1 to 36 lower-case letters, digits and hyphens, beginning with a letter or digit",
	}
	outputName = text{
		Pattern: regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,100}$`),
		Like:    "1 to 101 letters, digits, . _ - beginning with a letter or digit",
	}
	relativePath = text{Min: 1, Max: 4096, Rule: pathFault, Like: "a relative path with / between its parts and without empty, . or .. parts"}
	hostPath     = text{Min: 1, Max: 4096, NonBlank: true, Rule: nulFault, Like: "the path of something in the project folder"}
	waitMs       = number{Min: 0, Max: 300_000, Whole: true}
)

func named(doc string) field {
	return field{Name: "guest", Required: true, Doc: doc, Shape: guestName}
}

// pathFault says why p is not a relative path that stays below its folder.
func pathFault(p string) string {
	switch {
	case strings.HasPrefix(p, "/"):
		return fmt.Sprintf("is absolute (%q)", short(p))
	case strings.ContainsAny(p, "\\\x00"):
		return "holds a backslash or NUL"
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Sprintf("is %q", short(p))
		}
	}
	return ""
}

func nulFault(p string) string {
	if strings.ContainsRune(p, 0) {
		return "holds a NUL"
	}
	return ""
}
