package redisstore

import (
	"crypto/sha1"
	"encoding/hex"
)

// script is one Lua program, as the server knows it.
type script struct {
	text string
	sha  string // what EVALSHA calls it by
}

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text)) // the server's own way to name scripts, not a protection
	return &script{text: text, sha: hex.EncodeToString(sum[:])}
}
