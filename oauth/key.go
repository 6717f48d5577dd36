package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"countersign/registry"
	"countersign/secrets"
)

// Key is a private key that signs for us.
type Key struct {
	key        crypto.Signer
	id         string                    // kid of a JWK; "" when the key has none
	algorithms []jose.SignatureAlgorithm // that it can sign by, the first one by itself
	secret     secrets.Value             // what it was read from
}

// leastRSA is the shortest modulus, in bits (RFC 7518, section 3.3).
const leastRSA = 2048

// ParseKey reads a private key: PEM (PKCS #8, PKCS #1, SEC 1) or a JWK; of RSA with at
// least 2048 bits, of ECDSA on P-256, P-384 or P-521, or of Ed25519. The error says
// nothing of what was read.
func ParseKey(value secrets.Value) (*Key, error) {
	k := &Key{secret: value}
	text := strings.TrimSpace(value.Reveal())
	if strings.HasPrefix(text, "{") {
		var private jose.JSONWebKey
		if private.UnmarshalJSON([]byte(text)) != nil || private.IsPublic() || !private.Valid() {
			return nil, badKey("it is no private JWK")
		}
		k.id = private.KeyID
		signer, ok := private.Key.(crypto.Signer)
		if !ok {
			return nil, badKey("it is no key that signs")
		}
		k.key = signer
		if private.Algorithm != "" {
			k.algorithms = []jose.SignatureAlgorithm{jose.SignatureAlgorithm(private.Algorithm)}
		}
	} else {
		block, rest := pem.Decode([]byte(text))
		if block == nil || strings.TrimSpace(string(rest)) != "" {
			return nil, badKey("it is neither one PEM block nor a JWK")
		}
		k.key = readPEM(block)
	}
	able := k.able()
	if len(able) == 0 {
		return nil, badKey("it is none of RSA with 2048 bits or more, ECDSA on a curve of NIST, or Ed25519")
	}
	if len(k.algorithms) == 0 {
		k.algorithms = able
	}
	if !slices.Contains(able, k.algorithms[0]) {
		return nil, badKey("its alg is not one that it can sign by")
	}
	return k, nil
}

func badKey(why string) error {
	return registry.Errorf(registry.ReasonKeyUnusable, "the private key cannot be used: %s", why).With("phase", phase).
		WithNext("put a PEM block (PKCS #8) or a JWK with a private key of RSA, ECDSA or Ed25519 where its reference says")
}

// readPEM reads a block, whatever it calls itself; nil when it is no key.
func readPEM(block *pem.Block) crypto.Signer {
	if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		signer, _ := key.(crypto.Signer)
		return signer
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key
	}
	return nil
}

// able gives the ways in which the key can sign, the usual one first.
func (k *Key) able() []jose.SignatureAlgorithm {
	switch key := k.key.(type) {
	case *rsa.PrivateKey:
		if key.N.BitLen() >= leastRSA {
			return []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.RS384, jose.PS384, jose.RS512, jose.PS512}
		}
	case *ecdsa.PrivateKey:
		switch key.Curve {
		case elliptic.P256():
			return []jose.SignatureAlgorithm{jose.ES256}
		case elliptic.P384():
			return []jose.SignatureAlgorithm{jose.ES384}
		case elliptic.P521():
			return []jose.SignatureAlgorithm{jose.ES512}
		}
	case ed25519.PrivateKey:
		return []jose.SignatureAlgorithm{jose.EdDSA}
	}
	return nil
}

// public gives the public half, with an id: its own, or its thumbprint (RFC 7638).
func (k *Key) public() (jose.JSONWebKey, error) {
	out := jose.JSONWebKey{Key: k.key.Public(), KeyID: k.id, Algorithm: string(k.algorithms[0]), Use: "sig"}
	if out.KeyID == "" {
		thumb, err := out.Thumbprint(crypto.SHA256)
		if err != nil {
			return out, err
		}
		out.KeyID = base64.RawURLEncoding.EncodeToString(thumb)
	}
	return out, nil
}

// sign makes a JWT.
func (k *Key) sign(algorithm jose.SignatureAlgorithm, id string, claims any) (secrets.Value, error) {
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: k.key, KeyID: id}}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return secrets.Value{}, err
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	return secrets.Secret(text), err
}

// assertionLife is how long a client assertion is good.
const assertionLife = time.Minute

// signed makes a client assertion (RFC 7523, section 3), for the issuer and nobody
// else: its audience is the issuer's identifier, which no other can use.
func (c *Credential) signed(m *metadata) (secrets.Value, *registry.Error) {
	algorithm := c.o.Key.algorithms[0]
	if len(m.Algorithms) > 0 {
		i := slices.IndexFunc(c.o.Key.algorithms, func(a jose.SignatureAlgorithm) bool { return slices.Contains(m.Algorithms, string(a)) })
		if i < 0 {
			return secrets.Value{}, c.unsupported("signatures that the connection's key can make")
		}
		algorithm = c.o.Key.algorithms[i]
	}
	now := c.o.Now()
	value, err := c.o.Key.sign(algorithm, c.o.Key.id, jwt.Claims{
		Issuer: c.clientID(), Subject: c.clientID(), Audience: jwt.Audience{c.o.Issuer}, ID: rand.Text(),
		IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(assertionLife)),
	})
	if err != nil {
		return value, c.fault(registry.ReasonKeyUnusable, "the connection's key does not sign")
	}
	return value, nil
}
