package catalogue_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/catalogue"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

const status = `Package: zlib1g
Status: install ok installed
Version: 1:1.3
Description: library
 Package: not-a-package
 .

Package: cua-driver
Status: deinstall ok config-files
Version: 0.1

Package: half
Status: install reinstreq half-installed

Package: bash
Status: install ok installed

`

func TestCatalogueOfImages(t *testing.T) {
	installed := status + "Package: cua-driver\nStatus: install ok installed\nVersion: 0.30.0" // the file ends without a newline
	cases := []struct {
		name   string
		status string
		images []driver.Image
		want   []string
	}{
		{"only what is wholly installed", status, []driver.Image{{Name: "host"}}, []string{"host dpkg:bash", "host dpkg:zlib1g"}},
		{"the driver when it really is", installed, []driver.Image{{Name: "host"}}, []string{"host dpkg:bash", "host dpkg:cua-driver", "host dpkg:zlib1g"}},
		{"our capture where there is a display", "", []driver.Image{{Name: "host", Display: "1280x800"}}, []string{"host relay:x11-capture"}},
		{"no host packages in another image", status, []driver.Image{{Name: "noble"}}, []string{"noble"}},
		{"images in order", "", []driver.Image{{Name: "b"}, {Name: "a"}}, []string{"a", "b"}},
		{"what the bounds do not admit is left out", "Package: " + strings.Repeat("x", 300) + "\nStatus: install ok installed\n", []driver.Image{{Name: "host"}}, []string{"host"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "status")
			if err := os.WriteFile(path, []byte(c.status), 0o600); err != nil {
				t.Fatal(err)
			}
			built, err := catalogue.Build(c.images, path)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, image := range built.Images {
				if len(image.Applications) == 0 {
					got = append(got, image.Image)
				}
				for _, app := range image.Applications {
					got = append(got, image.Image+" "+app.ID)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestHostWithoutDpkgHasNoPackages(t *testing.T) {
	built, err := catalogue.Build([]driver.Image{{Name: "host"}}, filepath.Join(t.TempDir(), "none"))
	if err != nil || len(built.Images) != 1 || len(built.Images[0].Applications) != 0 {
		t.Errorf("Build = %+v, %v", built, err)
	}
}
