package oauth

import (
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"countersign/outbound"
	"countersign/registry"
	"countersign/secrets"
)

// anyAlgorithm is every way of signing: whoever takes the token checks the signature,
// here only is read what it says.
var anyAlgorithm = []jose.SignatureAlgorithm{
	jose.EdDSA, jose.HS256, jose.HS384, jose.HS512, jose.RS256, jose.RS384, jose.RS512,
	jose.ES256, jose.ES384, jose.ES512, jose.PS256, jose.PS384, jose.PS512,
}

// claimsOf reads the claims of a token that is a JWT.
func claimsOf(value secrets.Value) (claims jwt.Claims, ok bool) {
	parsed, err := jwt.ParseSigned(value.Reveal(), anyAlgorithm)
	if err != nil {
		return claims, false
	}
	return claims, parsed.UnsafeClaimsWithoutVerification(&claims) == nil
}

// accept takes a token for a resource, or refuses it. seconds is how long the issuer
// says that it lives; 0: it does not say, negative: no longer.
func (c *Credential) accept(value secrets.Value, resource string, seconds int64) (token, *registry.Error) {
	if text := value.Reveal(); len(text) > maxToken || strings.Trim(strings.TrimRight(text, "="), b64token) != "" || text == "" {
		return token{}, c.garbled("the token is too long, or has characters that tokens have not")
	}
	now, life := c.o.Now(), unstated
	switch {
	case seconds < 0:
		life = 0
	case seconds > 0:
		life = longest
		if seconds < int64(longest/time.Second) {
			life = time.Duration(seconds) * time.Second
		}
	}
	if claims, ok := claimsOf(value); ok {
		if fault := c.checkClaims(claims, resource); fault != nil {
			return token{}, fault
		}
		if claims.Expiry != nil {
			left := claims.Expiry.Time().Sub(now)
			if left <= 0 {
				return token{}, c.garbled("the token has expired already").WithNext("compare the clocks of the issuer and of this machine")
			}
			if seconds == 0 {
				life = longest
			}
			life = min(life, left)
		}
	}
	t := token{value: value, resource: resource}
	if life > 0 {
		t.until = now.Add(life - min(maxSkew, life/4))
	}
	return t, nil
}

// b64token are the characters of tokens (RFC 6750, section 2.1).
const b64token = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/"

// checkClaims says whether a token is for the server, and of the issuer. One that is
// for nobody is for everybody, so it is not used either.
func (c *Credential) checkClaims(claims jwt.Claims, resource string) *registry.Error {
	if c.o.Issuer != "" && claims.Issuer != "" && claims.Issuer != c.o.Issuer {
		return c.fault(registry.ReasonIssuerMismatch, "the issuer's token names another issuer").
			With("named", outbound.Excerpt(claims.Issuer, 200)).
			WithNext("correct the connection's issuer to the one that makes the tokens; the token was not used")
	}
	for _, one := range c.audience(resource) {
		if oauthex.MatchesResource(claims.Audience, one) {
			return nil
		}
	}
	return c.fault(registry.ReasonAudienceMismatch, "the issuer's token is not for this server").
		With("audience", outbound.Excerpt(strings.Join(claims.Audience[:min(len(claims.Audience), 10)], " "), 400)).With("resource", resource).
		WithNext("let the issuer put the server's URL into the audience of its tokens (RFC 8707); the token was not used")
}
