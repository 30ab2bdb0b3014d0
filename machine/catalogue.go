package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of a catalogue. Lengths count code points.
const (
	MaxCatalogueImages       = 64
	MaxCatalogueApplications = 20_000 // over all images
	MaxApplicationID         = 128
	MaxApplicationText       = 256 // a name, an alias, a version
	MaxAliases               = 16
	MaxCatalogueBytes        = 4 << 20 // indented by two spaces, ASCII-escaped, with a final newline
)

var imageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// DecodeCatalogue reads the answer of GET /applications. All its objects are closed: an unknown key anywhere is an error.
func DecodeCatalogue(body []byte) (Catalogue, error) {
	if !utf8.Valid(body) || hasLoneSurrogate(body) {
		return Catalogue{}, fmt.Errorf("%w: catalogue is not text of whole Unicode characters", ErrMalformed)
	}
	c, err := parseCatalogue(body)
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		return Catalogue{}, fmt.Errorf("%w: catalogue: %w", ErrMalformed, err)
	}
	return c, nil
}

func parseCatalogue(body []byte) (c Catalogue, err error) {
	object, err := closedObject(body, "schemaVersion", "images")
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(object["schemaVersion"], &c.SchemaVersion); err != nil {
		return c, fmt.Errorf("schemaVersion: %w", err)
	}
	images, err := array(object["images"])
	if err != nil {
		return c, fmt.Errorf("images: %w", err)
	}
	for i, raw := range images {
		inventory, err := parseInventory(raw)
		if err != nil {
			return c, fmt.Errorf("image %d: %w", i+1, err)
		}
		c.Images = append(c.Images, inventory)
	}
	return c, nil
}

func parseInventory(raw json.RawMessage) (i ImageInventory, err error) {
	object, err := closedObject(raw, "image", "os", "architecture", "applications")
	if err != nil {
		return i, err
	}
	if err := texts(object, map[string]*string{"image": &i.Image, "os": &i.OS, "architecture": &i.Architecture}); err != nil {
		return i, err
	}
	entries, err := array(object["applications"])
	if err != nil {
		return i, fmt.Errorf("applications: %w", err)
	}
	i.Applications = make([]Application, len(entries))
	for n, entry := range entries {
		if i.Applications[n], err = parseApplication(entry); err != nil {
			return i, fmt.Errorf("application %d: %w", n+1, err)
		}
	}
	return i, nil
}

func parseApplication(raw json.RawMessage) (a Application, err error) {
	object, err := closedObject(raw, "id", "name", "aliases", "version")
	if err != nil {
		return a, err
	}
	if err := texts(object, map[string]*string{"id": &a.ID, "name": &a.Name}); err != nil {
		return a, err
	}
	aliases, err := array(object["aliases"])
	if err != nil {
		return a, fmt.Errorf("aliases: %w", err)
	}
	a.Aliases = make([]string, len(aliases))
	for n, alias := range aliases {
		if err := text(alias, &a.Aliases[n]); err != nil {
			return a, fmt.Errorf("aliases: %w", err)
		}
	}
	if !isNull(object["version"]) {
		a.Version = new(string)
		if err := text(object["version"], a.Version); err != nil {
			return a, fmt.Errorf("version: %w", err)
		}
	}
	return a, nil
}

// closedObject reads an object that has exactly these keys, spelled exactly so.
func closedObject(raw json.RawMessage, keys ...string) (map[string]json.RawMessage, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, err
	}
	for key := range object {
		if !slices.Contains(keys, key) {
			return nil, fmt.Errorf("unknown key %q", key)
		}
	}
	for _, key := range keys {
		if _, ok := object[key]; !ok {
			return nil, fmt.Errorf("%s is missing", key)
		}
	}
	return object, nil
}

func array(raw json.RawMessage) ([]json.RawMessage, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	if list == nil {
		return nil, errors.New("null")
	}
	return list, nil
}

func text(raw json.RawMessage, into *string) error {
	if isNull(raw) {
		return errors.New("null")
	}
	return json.Unmarshal(raw, into)
}

func texts(object map[string]json.RawMessage, into map[string]*string) error {
	for key, value := range into {
		if err := text(object[key], value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

// Validate checks every rule of a catalogue and names the first one broken.
func (c Catalogue) Validate() error {
	if c.SchemaVersion != 1 {
		return fmt.Errorf("schemaVersion is %d, not 1", c.SchemaVersion)
	}
	if len(c.Images) > MaxCatalogueImages {
		return fmt.Errorf("%d images, at most %d are allowed", len(c.Images), MaxCatalogueImages)
	}
	total := 0
	for i, image := range c.Images {
		if i > 0 && image.Image <= c.Images[i-1].Image {
			return fmt.Errorf("image %q is out of order or given twice", image.Image)
		}
		if err := image.validate(); err != nil {
			return fmt.Errorf("image %q: %w", image.Image, err)
		}
		total += len(image.Applications)
	}
	if total > MaxCatalogueApplications {
		return fmt.Errorf("%d applications, at most %d are allowed", total, MaxCatalogueApplications)
	}
	return nil
}

func (i ImageInventory) validate() error {
	switch {
	case !imageName.MatchString(i.Image):
		return errors.New("not an image name")
	case i.OS != "linux" && i.OS != "macos":
		return fmt.Errorf("os is %q", i.OS)
	case i.Architecture != "arm64" && i.Architecture != "x86_64":
		return fmt.Errorf("architecture is %q", i.Architecture)
	}
	for n, app := range i.Applications {
		if n > 0 && app.ID <= i.Applications[n-1].ID {
			return fmt.Errorf("application %q is out of order or given twice", app.ID)
		}
		if err := app.Validate(); err != nil {
			return fmt.Errorf("application %q: %w", app.ID, err)
		}
	}
	return nil
}

// Validate checks one application by itself.
func (a Application) Validate() error {
	if err := checkText(a.ID, MaxApplicationID); err != nil {
		return fmt.Errorf("id: %w", err)
	}
	if err := checkText(a.Name, MaxApplicationText); err != nil {
		return fmt.Errorf("name: %w", err)
	}
	if len(a.Aliases) > MaxAliases {
		return fmt.Errorf("%d aliases, at most %d are allowed", len(a.Aliases), MaxAliases)
	}
	for n, alias := range a.Aliases {
		if err := checkText(alias, MaxApplicationText); err != nil {
			return fmt.Errorf("alias %d: %w", n+1, err)
		}
		if n > 0 && alias <= a.Aliases[n-1] {
			return fmt.Errorf("alias %d is out of order or given twice", n+1)
		}
	}
	if a.Version != nil {
		if err := checkText(*a.Version, MaxApplicationText); err != nil {
			return fmt.Errorf("version: %w", err)
		}
	}
	return nil
}

// blanks are the code points ECMAScript calls white space or line ends; U+0085 is not one of them.
const blanks = "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"

// checkText: not empty, whole Unicode characters, none below U+0020, at least one that is not blank, at most limit of them.
func checkText(s string, limit int) error {
	switch {
	case s == "":
		return errors.New("empty")
	case !utf8.ValidString(s):
		return errors.New("not valid UTF-8")
	case utf8.RuneCountInString(s) > limit:
		return fmt.Errorf("longer than %d characters", limit)
	case strings.IndexFunc(s, func(r rune) bool { return r < 0x20 }) >= 0:
		return errors.New("has a control character")
	case strings.Trim(s, blanks) == "":
		return errors.New("blank")
	}
	return nil
}

// hasLoneSurrogate looks for a \u escape of half a surrogate pair, which encoding/json would replace silently.
func hasLoneSurrogate(body []byte) bool {
	high := false // the escape before this one was the first half of a pair
	for i := 0; i < len(body); i++ {
		if body[i] != '\\' || i+1 >= len(body) {
			if high {
				return true
			}
			continue
		}
		unit, ok := escapedUnit(body[i:])
		isLow := ok && unit >= 0xdc00 && unit <= 0xdfff
		if high != isLow {
			return true
		}
		high = ok && unit >= 0xd800 && unit <= 0xdbff
		if ok {
			i += len(`\uXXXX`) - 1
		} else {
			i++ // the escaped character, which may be a backslash
		}
	}
	return high
}

// escapedUnit reads \uXXXX at the start of b.
func escapedUnit(b []byte) (unit uint16, ok bool) {
	if len(b) < 6 || b[1] != 'u' {
		return 0, false
	}
	for _, c := range b[2:6] {
		digit := slices.Index([]byte("0123456789abcdef"), c|0x20)
		if digit < 0 {
			return 0, false
		}
		unit = unit<<4 | uint16(digit)
	}
	return unit, true
}
