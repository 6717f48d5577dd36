// Package outbound is the only place that dials strangers. Everything that
// Countersign fetches or sends on somebody's word (to MCP servers, issuers and
// their keys, extensions, receivers of events) goes through a [Guard].
//
// The guard looks at the address that is connected to, never at the text of a
// URL: a name is resolved once, every answer is checked, the connection goes to
// one of the checked addresses, and the dialer checks that address again on the
// socket. So DNS rebinding finds no second look-up to lie to, and a name with a
// public and a private answer is refused as a whole (threats: SSRF, rebinding).
//
// Limits bound what an answer may cost: decompressed bytes of one response and
// of all responses of a client, header bytes, time to connect. Redirects are
// handed to the caller, not followed; proxies of the environment are not used,
// since a proxy would connect where the guard cannot look.
//
// Errors are [registry.Error] with the reasons blocked_address, dns, tls,
// unreachable, timeout, too_large and protocol_error (no HTTP spoken there).
package outbound
