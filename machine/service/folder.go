package service

import (
	"crypto/sha256"
	"encoding/hex"
)

// FolderID names a state folder without showing where it is: /health carries it, so that a relay tells the service of its own
// folder from another one of the same user.
func FolderID(stateDir string) string {
	sum := sha256.Sum256([]byte(stateDir))
	return hex.EncodeToString(sum[:8])
}
