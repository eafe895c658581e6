package identity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// keySet is the keys of one reading. It is immutable.
type keySet struct {
	byID map[string]any // by key id, "" for a key without one
	only any            // the key, if the set has one
	skip []string       // why keys of the source verify nothing
}

// find returns the key for the id of a token. A set of one key also verifies tokens
// without an id, and a key without an id also tokens with any id: there is nothing to
// choose from.
func (s *keySet) find(id string) (any, bool) {
	if key, ok := s.byID[id]; ok && id != "" {
		return key, true
	}
	if _, nameless := s.byID[""]; s.only != nil && (id == "" || nameless) {
		return s.only, true
	}
	return nil, false
}

// parseKeys parses a JSON Web Key Set or a PEM file. secrets says that the source may have
// keys that are secret, for HS256 and the like; such a key in a document that others can
// fetch would let them sign tokens.
func parseKeys(data []byte, secrets bool) (*keySet, error) {
	s := &keySet{byID: map[string]any{}}
	var err error
	if strings.HasPrefix(strings.TrimSpace(string(data)), "{") {
		err = s.addJWKS(data, secrets)
	} else {
		err = s.addPEM(data)
	}
	if err != nil {
		return nil, err
	}
	switch len(s.byID) {
	case 0:
		return nil, fmt.Errorf("has no key that verifies tokens%s", s.skipped())
	case 1:
		for _, key := range s.byID {
			s.only = key
		}
	default:
		if _, ok := s.byID[""]; ok {
			delete(s.byID, "")
			s.skip = append(s.skip, "a key without kid, among others")
		}
	}
	return s, nil
}

// skipped returns the reasons for an error or a log line.
func (s *keySet) skipped() string {
	if len(s.skip) == 0 {
		return ""
	}
	return " (" + strings.Join(s.skip[:min(5, len(s.skip))], "; ") + ")"
}

// addJWKS adds the keys of a JSON Web Key Set (RFC 7517). Issuers publish keys for several
// purposes, so a key that verifies nothing is skipped.
func (s *keySet) addJWKS(data []byte, secrets bool) error {
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &document); err != nil {
		return errors.New("is not a JSON Web Key Set: its JSON is malformed")
	}
	if document.Keys == nil {
		return errors.New(`is not a JSON Web Key Set: it has no "keys"`)
	}
	for i, raw := range document.Keys {
		var key jose.JSONWebKey
		if err := json.Unmarshal(raw, &key); err != nil {
			s.skip = append(s.skip, fmt.Sprintf("keys[%d]: malformed, or of a type that is not supported", i))
			continue
		}
		if problem := s.add(&key, secrets); problem != "" {
			s.skip = append(s.skip, fmt.Sprintf("keys[%d], kid %.60q: %s", i, key.KeyID, problem))
		}
	}
	return nil
}

// add adds a key, or returns why it verifies nothing.
func (s *keySet) add(key *jose.JSONWebKey, secrets bool) (problem string) {
	if key.Use != "" && key.Use != "sig" {
		return fmt.Sprintf("is for the use %.20q", key.Use)
	}
	if _, taken := s.byID[key.KeyID]; taken {
		return "has the kid of another key"
	}
	if secret, ok := key.Key.([]byte); ok {
		switch {
		case !secrets:
			return "is a secret, which no URL may publish (keep it in a file)"
		case len(secret) < minSecret:
			return fmt.Sprintf("is a secret of fewer than %d bytes", minSecret)
		}
		s.byID[key.KeyID] = secret
		return ""
	}
	if !key.IsPublic() {
		return "is a private key (publish the public one)"
	}
	if !usable(key.Key) {
		return "is of a type that is not supported"
	}
	s.byID[key.KeyID] = key.Key
	return ""
}

// Bounds on keys. RFC 7518, section 3.2, requires a secret as long as the hash.
const (
	minSecret  = 32
	minRSABits = 2048
	maxRSABits = 8192 // the time to verify a signature grows with the size
)

func usable(key any) bool {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= minRSABits && k.N.BitLen() <= maxRSABits
	case *ecdsa.PublicKey:
		return k.Curve == elliptic.P256() || k.Curve == elliptic.P384() || k.Curve == elliptic.P521()
	case ed25519.PublicKey:
		return len(k) == ed25519.PublicKeySize
	}
	return false
}

// addPEM adds the public key or the certificate of a PEM file.
func (s *keySet) addPEM(data []byte) error {
	block, rest := pem.Decode(data)
	if block == nil {
		return errors.New("is neither a JSON Web Key Set nor PEM")
	}
	if next, _ := pem.Decode(rest); next != nil {
		return errors.New("has several PEM blocks (give one key, or a JSON Web Key Set, in which keys have ids)")
	}
	var key any
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		var certificate *x509.Certificate
		if certificate, err = x509.ParseCertificate(block.Bytes); err == nil {
			key = certificate.PublicKey
		}
	default:
		return fmt.Errorf("is a PEM block of type %.40q (give a PUBLIC KEY or a CERTIFICATE)", block.Type)
	}
	if err != nil || !usable(key) {
		return fmt.Errorf("has a key that verifies no tokens (give RSA of %d to %d bits, P-256, P-384, P-521 or Ed25519)", minRSABits, maxRSABits)
	}
	s.byID[""] = key
	return nil
}
