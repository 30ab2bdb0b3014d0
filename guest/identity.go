package guest

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var (
	taskSlug  = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,35}$`)
	guestName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)
	safeID    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,159}$`)
	outputID  = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,100}$`)
)

// newPurpose makes the id that names one guest everywhere outside this session: machine, evidence folder, package.
func newPurpose(task string) string {
	return fmt.Sprintf("relay-%s-%s", task, randomHex(4))
}

// guestStamp is the start of a guest root's name: UTC to the second.
func guestStamp(at time.Time) string {
	return at.UTC().Format("2006-01-02-15-04-05") + "-Z"
}

// newID makes an id that sorts by the time of its making: 9 characters of base-36 milliseconds, then 8 random ones.
func newID(prefix string, at time.Time) string {
	stamp := strconv.FormatInt(at.UnixMilli(), 36)
	if len(stamp) < 9 {
		stamp = strings.Repeat("0", 9-len(stamp)) + stamp
	}
	return prefix + stamp + randomBase36(8)
}

// newUUID makes a random UUID, version 4.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

func randomBase36(n int) string {
	limit := new(big.Int).Exp(big.NewInt(36), big.NewInt(int64(n)), nil)
	v, err := rand.Int(rand.Reader, limit)
	if err != nil {
		v = new(big.Int) // unreachable: crypto/rand.Reader does not fail
	}
	text := v.Text(36)
	return strings.Repeat("0", n-len(text)) + text
}
