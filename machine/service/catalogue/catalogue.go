package catalogue

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

// hostImage is the image that shows the programs of this host.
const hostImage = "host"

// Build lists every image. The packages of the host's Debian system, read from dpkgStatus, are those of the image "host";
// a host without that file has none to show. An image with a display lists the capture of our own receiver.
func Build(images []driver.Image, dpkgStatus string) (machine.Catalogue, error) {
	c := machine.Catalogue{SchemaVersion: 1, Images: []machine.ImageInventory{}}
	for _, image := range images {
		inventory := machine.ImageInventory{Image: image.Name, OS: "linux", Architecture: architecture(), Applications: []machine.Application{}}
		if image.Name == hostImage {
			packages, err := installed(dpkgStatus)
			if err != nil {
				return machine.Catalogue{}, err
			}
			inventory.Applications = append(inventory.Applications, packages...)
		}
		if image.Display != "" {
			inventory.Applications = append(inventory.Applications,
				machine.Application{ID: machine.CaptureX11, Name: "mcp-relay X11 capture", Aliases: []string{}})
		}
		slices.SortFunc(inventory.Applications, func(a, b machine.Application) int { return strings.Compare(a.ID, b.ID) })
		inventory.Applications = slices.CompactFunc(inventory.Applications, func(a, b machine.Application) bool { return a.ID == b.ID })
		c.Images = append(c.Images, inventory)
	}
	slices.SortFunc(c.Images, func(a, b machine.ImageInventory) int { return strings.Compare(a.Image, b.Image) })
	if err := c.Validate(); err != nil {
		return machine.Catalogue{}, fmt.Errorf("cannot build the catalogue: %w", err)
	}
	if size, err := asciiSize(c); err != nil || size > machine.MaxCatalogueBytes {
		return machine.Catalogue{}, fmt.Errorf("cannot build the catalogue: %d bytes, at most %d are allowed (%v)", size, machine.MaxCatalogueBytes, err)
	}
	return c, nil
}

// asciiSize is the size of the catalogue as indented JSON with a final newline, every character that is not ASCII escaped.
func asciiSize(c machine.Catalogue) (int, error) {
	data, err := json.MarshalIndent(c, "", "  ")
	size := 1
	for _, r := range string(data) {
		switch {
		case r < utf8.RuneSelf:
			size++
		case r > 0xffff:
			size += len(`\ud83d\ude00`)
		default:
			size += len(`\u00e9`)
		}
	}
	return size, err
}

func architecture() string {
	if runtime.GOARCH == "amd64" {
		return "x86_64"
	}
	return runtime.GOARCH
}

// installed reads the packages of a dpkg status file.
func installed(path string) ([]machine.Application, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the installed packages: %w", err)
	}
	defer f.Close()
	packages, err := parseStatus(f)
	if err != nil {
		return nil, fmt.Errorf("cannot read the installed packages in %s: %w", path, err)
	}
	return packages, nil
}

// maxLine bounds a line of the status file.
const maxLine = 1 << 20

// parseStatus reads paragraphs of "Key: value" lines with blank lines between them. A package counts only when it is wholly
// installed, and one that the catalogue's bounds do not admit is left out.
func parseStatus(r io.Reader) ([]machine.Application, error) {
	var packages []machine.Application
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	paragraph := map[string]string{}
	for more := true; more; {
		more = lines.Scan()
		line := lines.Text()
		if key, value, ok := strings.Cut(line, ": "); more && ok && !strings.HasPrefix(line, " ") {
			paragraph[key] = value
		}
		if strings.TrimSpace(line) != "" && more {
			continue
		}
		if app, ok := application(paragraph); ok {
			packages = append(packages, app)
		}
		clear(paragraph)
	}
	return packages, lines.Err()
}

func application(paragraph map[string]string) (machine.Application, bool) {
	name, version := paragraph["Package"], paragraph["Version"]
	if !strings.HasSuffix(paragraph["Status"], " ok installed") {
		return machine.Application{}, false
	}
	app := machine.Application{ID: "dpkg:" + name, Name: name, Aliases: []string{}}
	if version != "" {
		app.Version = &version
	}
	return app, name != "" && app.Validate() == nil
}
