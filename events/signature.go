package events

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"countersign/registry"
	"countersign/secrets"
)

// The headers of Standard Webhooks.
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

// Tolerance is how far the time of a signature may be from ours.
const Tolerance = 5 * time.Minute

// leastKey is how many bytes a key has at least (Standard Webhooks).
const leastKey = 24

// key gives the bytes of a secret: what follows whsec_ is base64, any other text
// is its own bytes.
func key(secret secrets.Value) ([]byte, error) {
	k := []byte(secret.Reveal())
	if encoded, ok := strings.CutPrefix(strings.TrimSpace(string(k)), "whsec_"); ok {
		decoded, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, registry.Errorf(registry.ReasonSecretRefUnresolved, "what follows whsec_ in the secret is not base64").
				WithNext("put a secret as Standard Webhooks writes it there: whsec_ and base64 of 24 to 64 random bytes")
		}
		k = decoded
	}
	if len(k) < leastKey {
		return nil, registry.Errorf(registry.ReasonSecretRefUnresolved, "the secret has fewer than %d bytes", leastKey).
			WithNext("put a longer one there: whsec_ and base64 of 24 to 64 random bytes")
	}
	return k, nil
}

// sign gives the value of the header for one or, while secrets are rotated, more
// keys.
func sign(id string, at time.Time, body []byte, keys ...[]byte) string {
	var out []string
	for _, k := range keys {
		out = append(out, "v1,"+base64.StdEncoding.EncodeToString(mac(k, id, strconv.FormatInt(at.Unix(), 10), body)))
	}
	return strings.Join(out, " ")
}

func mac(key []byte, id, timestamp string, body []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(id + "." + timestamp + "."))
	h.Write(body)
	return h.Sum(nil)
}

// current says whether a request has what a signature needs, of about now.
func current(header http.Header, now time.Time) bool {
	seconds, err := strconv.ParseInt(header.Get(headerTimestamp), 10, 64)
	return err == nil && header.Get(headerID) != "" && header.Get(headerSignature) != "" && now.Sub(time.Unix(seconds, 0)).Abs() <= Tolerance
}

// verify says whether one of the keys signed a body under an id, at about now.
func verify(header http.Header, body []byte, now time.Time, keys ...[]byte) bool {
	if !current(header, now) {
		return false
	}
	id, timestamp := header.Get(headerID), header.Get(headerTimestamp)
	good := 0
	for signature := range strings.FieldsSeq(header.Get(headerSignature)) {
		encoded, ok := strings.CutPrefix(signature, "v1,")
		given, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil {
			continue
		}
		for _, k := range keys {
			good |= subtle.ConstantTimeCompare(given, mac(k, id, timestamp, body))
		}
	}
	return good == 1
}
