// Package mcpclient meets MCP servers, all of which it takes for hostile: it
// shakes hands, reads lists to the end, and says in the product's words what it
// met. It keeps nothing between two calls; [Client] can be shared.
//
// # Handshake
//
// A server speaks one of two eras: server/discover (2026-07-28) or initialize
// (2025-11-25 and older). The handshake itself is the SDK's, each era on a
// transport of its own, because the SDK's built-in fallback waits for silent
// servers until its time is over and breaks on odd answers. What was known of a
// server decides only which era is tried first and for how long, so a server
// that changed its era is found without anybody's help.
//
// Where streamable HTTP is refused with 400, 404 or 405, HTTP+SSE (2024-11-05)
// is tried by means of our own. The endpoint that such a server names must be of
// the same scheme, host and port; nothing is sent elsewhere.
//
// # Lists
//
// Pages are asked for by requests of our own, in the session that the SDK made,
// for all eras alike. The SDK's typed lists lose what digests need (big
// integers, unknown fields, explicit false, key order), let one bad tool hide
// all others, cannot send the empty cursor that 2026-07-28 allows, take
// "tools":null for an empty list, and have no bound on pages. Here a list ends
// whole or fails whole: pages, items, bytes, time and repetition are bounded,
// and every element is handed on as the bytes that were sent. Whether an
// element is a good tool is for the registry to judge.
//
// # Processes
//
// A server may also be a process ([Command]), spoken to over its standard input
// and output. It gets no environment but its own, runs in a sandbox, by
// bubblewrap, and under a supervisor, which ends it with all that it started, be
// it that the call is over, its time is over, or this program dies. Each
// handshake has a process of its own, since some servers end on a first message
// that they do not know. Lines that are no JSON-RPC 2.0 are counted and kept out;
// lines, all output together, and what is kept of standard error are bounded.
//
// # Credentials
//
// What a server wants to be shown comes from a [Credential], made for one call and
// asked for every HTTP request: of each era, the opening of an event stream and the
// goodbye too, at the target's own origin only. It is asked once before the handshake
// begins, in time of its own, so that an issuer that is slow or away is no fault of
// the server; when it fails, nothing is sent, and the error is the credential's, with
// the phase "authorize". A refused request (401, 403) is sent again as long as the
// credential has something else to show, at most twice. What the server sends is
// masked of all secrets of the credential before anything else reads it.
//
// # What never happens
//
// No redirect is followed, no GET stream of streamable HTTP is opened, no
// credential is invented, nothing that a server names (icons, schemas) is
// fetched, but for one thing: what a server that wants credentials says about
// itself (RFC 9728), at its own origin, without credentials. A session that a
// server forgets (404) is begun again, once, within the time of the lists. Every
// call ends within its limits; when it returns, its goroutines, connections and
// processes are gone and the server was told that its session is over.
//
// # Errors
//
// Errors are [registry.Error]. The fact "phase" says how far it came: authorize, dns,
// connect, tls, handshake or lists; "list" and "page" say which page. A server
// whose time ran out is slow when something came in the second half of it, else
// it is a timeout; "limit_seconds" is what it had. In the phase of lists whatever
// kept a list away is list_failed, with the fact "cause", except for reasons that
// call for something else: auth_required, forbidden, rate_limited,
// blocked_address, too_large, too_many, cursor_loop, malformed_list. What a process tells of itself are the facts "exit_code",
// "signal", "stderr" (its last 4 KiB, escaped), "noise_lines" and "noise". Whatever
// a process sends, on either output, is masked ([Command.Mask]) before anything else
// reads it, so no surface, report or error holds a secret that it got and prints.
// Otherwise, text of a server appears only as an escaped excerpt of at
// most 200 bytes. The end of the caller's own context is deadline_exceeded.
package mcpclient
