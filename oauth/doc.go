// Package oauth makes the tokens that requests to protected servers carry, as a
// client of OAuth 2.1 that no person stands behind.
//
// # What is asked whom
//
// An issuer is configured, and what belongs to it is sent to no other. Its metadata
// are read from the well-known places of RFC 8414 and of OpenID Connect Discovery;
// they must name the issuer, byte for byte, and a token endpoint at its own origin (or
// the one that is configured). The server's own metadata (RFC 9728) say what it calls
// itself, which must be itself, and whose tokens it takes: when the issuer is not among
// them, nothing is asked for. Nothing that metadata or answers say is followed, opened
// or started; their URLs are http or https, without anything that a shell or a browser
// reads in a way of its own.
//
// # How
//
// [Options] say by what: a secret, a key, a token that stands for us elsewhere, or one
// of our own ([Mint]). Every request for a token names the server as its resource
// (RFC 8707), and a token that can be read (RFC 9068) must be for that server and of
// that issuer, or it is not used. The token of a caller never gets here.
//
// Tokens are kept in memory until shortly before they end ([Cache]), and nowhere else;
// secrets and keys are kept for one use. A refused token is replaced once, and wider
// scopes are asked for once, when the server names some of those that are allowed.
//
// # Errors
//
// Errors are [registry.Error] with the phase "authorize" and the fact "issuer". That an
// issuer is away, slow, or answers 429 or 5xx is a dependency_error with the fact
// "cause". What an issuer says is never repeated but for the code of its error, when
// that is one of RFC 6749, 8693 or 8707.
package oauth
