package api

import "net/http"

// What every answer says to browsers. The API is no page: none may be made of
// its answers, framed, or sent elsewhere by a link.
const (
	policyOfAPI   = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
	policyOfPages = "frame-ancestors 'none'; base-uri 'none'" // of what stands behind Fallback, which may say more
	hsts          = "max-age=31536000"                        // a year; sent by TLS alone (RFC 6797, section 7.2)
)

// harden sets the headers of security. Whoever answers may replace them.
func harden(w http.ResponseWriter, r *http.Request, page bool) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", policyOfAPI)
	if page {
		h.Set("Content-Security-Policy", policyOfPages)
	}
	if r.TLS != nil {
		h.Set("Strict-Transport-Security", hsts)
	}
}
