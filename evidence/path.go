package evidence

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// SafePath reports why rel cannot name a file in a package: it must be a relative path with "/" between nonempty segments
// none of which is "." or "..", in UTF-8, without backslash, control characters, or any of : # ?.
func SafePath(rel string) error {
	switch {
	case rel == "":
		return errors.New("the path is empty")
	case path.IsAbs(rel):
		return fmt.Errorf("path %q is absolute", rel)
	case !utf8.ValidString(rel):
		return fmt.Errorf("path %q is not UTF-8", rel)
	case strings.ContainsFunc(rel, unsafeRune):
		return fmt.Errorf("path %q holds a backslash, a control character, or one of : # ?", rel)
	}
	for segment := range strings.SplitSeq(rel, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return fmt.Errorf("path %q has an empty or dot segment", rel)
		}
	}
	return nil
}

func unsafeRune(r rune) bool {
	return r < 0x20 || (r >= 0x7f && r < 0xa0) || strings.ContainsRune(`\:#?`, r)
}
