package registry

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"strings"
	"time"
)

// AuditCheckpoint is a signed statement of how long a tenant's chain was at a
// time, and which hash its last row had. One that is kept elsewhere shows a
// chain that was cut or rewritten since. Checkpoints are chained as well.
type AuditCheckpoint struct {
	TenantID  string    `bun:"tenant_id"`
	Number    int64     `bun:"number"` // from 1, without a gap
	Count     int64     `bun:"count"`  // rows up to the head
	Head      string    `bun:"head"`   // hash of the last of them
	At        time.Time `bun:"at"`     // by the database's clock, in microseconds
	KeyID     string    `bun:"key_id"`
	Prev      string    `bun:"prev"` // Digest of the checkpoint before; empty: there is none
	Signature []byte    `bun:"signature"`
}

// AuditCheckpointType begins the statement, and says which form it has.
const AuditCheckpointType = "countersign.audit.checkpoint/1"

// Statement is what is signed: the checkpoint without the signature, in the
// form of RFC 8785.
func (c *AuditCheckpoint) Statement() []byte { return c.appendJSON(nil, false) }

// Line is the checkpoint as a line of an export: the statement with the
// signature in base64.
func (c *AuditCheckpoint) Line() []byte { return c.appendJSON(nil, true) }

// Digest is the hash of the statement.
func (c *AuditCheckpoint) Digest() string { return digestBytes(c.Statement()) }

func (c *AuditCheckpoint) appendJSON(dst []byte, withSignature bool) []byte {
	o := canonicalObject{dst: append(dst, '{')}
	o.text("at", c.At.UTC().Format(auditTime))
	o.number("count", c.Count)
	o.text("head", c.Head)
	o.text("key_id", c.KeyID)
	o.number("number", c.Number)
	o.text("prev", c.Prev)
	if withSignature {
		o.text("signature", base64.StdEncoding.EncodeToString(c.Signature))
	}
	o.text("tenant_id", c.TenantID)
	o.text("type", AuditCheckpointType)
	return append(o.dst, '}')
}

func (l *auditLine) checkpoint() AuditCheckpoint {
	return AuditCheckpoint{
		TenantID: l.TenantID, Number: l.Number, Count: l.Count, Head: l.Head, At: l.At, KeyID: l.KeyID, Prev: l.Prev, Signature: l.Signature,
	}
}

// AuditPublicKey is what a checkpoint's signature is checked with.
type AuditPublicKey struct {
	ID  string // AuditKeyID
	Key ed25519.PublicKey
}

// AuditKeyID names a public key by what it is: 16 hexadecimal digits of its
// sha256. So no other key can go by its id.
func AuditKeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// Base64 is the key as configurations and --key have it.
func (k AuditPublicKey) Base64() string { return base64.StdEncoding.EncodeToString(k.Key) }

// PEM is the key as openssl reads it.
func (k AuditPublicKey) PEM() string {
	der, err := x509.MarshalPKIXPublicKey(k.Key)
	if err != nil {
		panic("registry: " + err.Error()) // an ed25519 key marshals
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// ParseAuditPublicKey reads a public key: its 32 bytes in base64, or PEM.
func ParseAuditPublicKey(text string) (AuditPublicKey, error) {
	text = strings.TrimSpace(text)
	var key ed25519.PublicKey
	if block, _ := pem.Decode([]byte(text)); block != nil {
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if is, ok := parsed.(ed25519.PublicKey); ok && err == nil {
			key = is
		}
	} else if raw, err := base64.StdEncoding.DecodeString(text); err == nil {
		key = raw
	}
	if len(key) != ed25519.PublicKeySize {
		return AuditPublicKey{}, Errorf(ReasonInvalidArgument, "not an Ed25519 public key").
			WithNext("give its 32 bytes in base64, or PEM; `countersign audit keys` prints them")
	}
	return AuditPublicKey{AuditKeyID(key), key}, nil
}

// AuditSigner signs checkpoints.
type AuditSigner struct{ key ed25519.PrivateKey }

// ParseAuditSigner reads a private key: PEM of PKCS #8, as openssl makes it, or
// the seed of 32 bytes in base64 or hexadecimal digits.
func ParseAuditSigner(text string) (*AuditSigner, error) {
	text = strings.TrimSpace(text)
	if block, _ := pem.Decode([]byte(text)); block != nil {
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if key, ok := parsed.(ed25519.PrivateKey); ok && err == nil {
			return &AuditSigner{key}, nil
		}
	} else if raw, err := hex.DecodeString(text); err == nil && len(raw) == ed25519.SeedSize {
		return &AuditSigner{ed25519.NewKeyFromSeed(raw)}, nil
	} else if raw, err := base64.StdEncoding.DecodeString(text); err == nil && len(raw) == ed25519.SeedSize {
		return &AuditSigner{ed25519.NewKeyFromSeed(raw)}, nil
	}
	return nil, Errorf(ReasonInvalidArgument, "not an Ed25519 private key").
		WithNext("make one: openssl genpkey -algorithm ed25519")
}

// Public is the key that the signatures are checked with.
func (s *AuditSigner) Public() AuditPublicKey {
	key, ok := s.key.Public().(ed25519.PublicKey)
	if !ok {
		panic("registry: an ed25519 key has another public key") // it has not
	}
	return AuditPublicKey{AuditKeyID(key), key}
}

// Sign completes a checkpoint with the key's id and the signature.
func (s *AuditSigner) Sign(c AuditCheckpoint) AuditCheckpoint {
	c.KeyID = s.Public().ID
	c.Signature = ed25519.Sign(s.key, c.Statement())
	return c
}
