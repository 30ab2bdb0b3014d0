package guestinit

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// shownEtc are the entries of the host's /etc that a guest has: what programs need to find libraries, fonts, certificates
// and defaults. Directories are bound read-only, files copied, symlinks repeated. What can hold a secret, an account or
// the host's identity is not in it, whatever its mode.
var shownEtc = []string{
	"ImageMagick-6", "ImageMagick-7", "OpenCL", "X11", "alternatives", "bash.bashrc", "bindresvport.blacklist",
	"ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version", "ethertypes", "fedora-release",
	"fonts", "gai.conf", "glvnd", "groff", "gtk-2.0", "gtk-3.0", "gtk-4.0", "host.conf", "inputrc", "issue", "java", "ld.so.cache",
	"ld.so.conf", "ld.so.conf.d", "libpaper.d", "locale.alias", "localtime", "lsb-release", "magic", "magic.mime",
	"manpath.config", "mime.types", "os-release", "papersize", "perl", "pki/ca-trust/extracted", "pki/tls/cert.pem",
	"pki/tls/certs", "protocols", "python3", "redhat-release", "rpc", "services", "sgml", "shells",
	"ssl/certs", "ssl/openssl.cnf", "system-release", "terminfo", "timezone", "vim", "vulkan", "xdg", "xml",
}

// shownEtcPatterns are like shownEtc, for names that carry a version.
var shownEtcPatterns = []string{"python3.[0-9]*", "java-*-openjdk"}

// largestEtcFile bounds a copied file, in bytes.
const largestEtcFile = 4 << 20

func buildEtc(root string, cfg SetupConfig) error {
	names := shownEtc
	for _, p := range shownEtcPatterns {
		matches, err := filepath.Glob("/etc/" + p)
		if err != nil {
			return err
		}
		for _, m := range matches {
			names = append(names, filepath.Base(m))
		}
	}
	for _, name := range names {
		if err := showEtc(root, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for name, content := range builtEtc(cfg) {
		if err := os.WriteFile(root+"/etc/"+name, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return os.Symlink("/proc/self/mounts", root+"/etc/mtab")
}

func showEtc(root, name string) error {
	source, target := "/etc/"+name, root+"/etc/"+name
	info, err := os.Lstat(source)
	if err != nil || !info.Mode().IsRegular() {
		if errors.Is(err, fs.ErrPermission) {
			return nil // what this user may not see the guest does not get
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return show(source, target)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	return copyFile(source, target)
}

func copyFile(source, target string) error {
	from, err := os.Open(source)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, io.LimitReader(from, largestEtcFile))
	return errors.Join(err, to.Close())
}

func builtEtc(cfg SetupConfig) map[string]string {
	shell := "/bin/sh"
	if _, err := os.Stat("/bin/bash"); err == nil {
		shell = "/bin/bash"
	}
	groups := "root:x:0:\ndaemon:x:1:\nnogroup:x:65534:\n"
	if cfg.ManyUIDs {
		groups += "tty:x:5:\n" // terminals give theirs to it when it is there
	}
	var id [16]byte
	_, _ = rand.Read(id[:])
	return map[string]string{
		"passwd": strings.Join([]string{
			"root:x:0:0:root:/root:" + shell,
			"daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin",
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin", ""}, "\n"),
		"group":         groups,
		"hostname":      cfg.Name + "\n",
		"hosts":         "127.0.0.1\tlocalhost\n127.0.1.1\t" + cfg.Name + "\n::1\tlocalhost ip6-localhost ip6-loopback\n",
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\nrpc: files\n",
		"resolv.conf":   "# no network\n",
		"fstab":         "",
		"machine-id":    hex.EncodeToString(id[:]) + "\n",
		"profile":       "export PATH=" + guestPath + "\n",
	}
}
