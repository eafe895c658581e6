package redisstore

import (
	"crypto/sha1" //nolint:gosec // the server's own way to name scripts, not a protection
	"encoding/hex"
)

// script is one Lua program, as the server knows it.
type script struct {
	text string
	sha  string // what EVALSHA calls it by
}

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see the import
	return &script{text: text, sha: hex.EncodeToString(sum[:])}
}
