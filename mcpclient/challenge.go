package mcpclient

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"countersign/outbound"
	"countersign/registry"
)

// Bounds of the look at what a protected resource says about itself: for one
// document and for all of them.
const (
	metadataBytes = 64 << 10
	metadataTime  = 5 * time.Second
)

// wellKnown is where the metadata of a protected resource are (RFC 9728, 3.1).
const wellKnown = "/.well-known/oauth-protected-resource"

// urlBytes is how much of a URL of a stranger's leaves this room.
const urlBytes = 400

// metadata is what a protected resource says about itself, made printable.
type metadata struct {
	issuers  []string
	resource string
	scopes   []string
}

// describe adds to auth_required what the protected resource's metadata say:
// the facts issuer (issuers, if several), resource and scopes, and where they
// were found. They are a server's word and for people; no credential goes
// along, and only the server's own origin is asked.
func (v *visit) describe(parent context.Context, fault *registry.Error) {
	base, err := url.Parse(v.target.URL)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(parent, metadataTime)
	defer cancel()
	client := v.client(metadataBytes)
	defer client.CloseIdleConnections()
	for _, at := range places(base, fault.Fact("resource_metadata")) {
		m, ok := v.fetchMetadata(ctx, client, at)
		if !ok {
			continue
		}
		fault.With("metadata", outbound.Excerpt(at, urlBytes))
		if m.resource != "" {
			fault.With("resource", m.resource)
		}
		if named, err := url.Parse(m.resource); m.resource != "" && (err != nil || origin(named) != origin(base)) {
			// RFC 9728, 3.3: metadata of another resource must not be used.
			fault.With("resource_mismatch", "true")
			return
		}
		if len(m.issuers) > 0 {
			fault.With("issuer", m.issuers[0])
		}
		if len(m.issuers) > 1 {
			fault.With("issuers", outbound.Excerpt(strings.Join(m.issuers, " "), urlBytes))
		}
		if len(m.scopes) > 0 {
			fault.With("scopes", outbound.Excerpt(strings.Join(m.scopes, " "), urlBytes))
		}
		return
	}
}

// places gives where to look, in order: where the challenge points to, unless
// that is another origin; the well-known place of the path; that of the host.
func places(base *url.URL, challenge string) []string {
	var out []string
	if u, err := url.Parse(challenge); challenge != "" && err == nil && u.User == nil && origin(u) == origin(base) {
		out = append(out, u.String())
	}
	root := url.URL{Scheme: base.Scheme, Host: base.Host, Path: wellKnown}
	if path := strings.TrimRight(base.EscapedPath(), "/"); path != "" || base.RawQuery != "" {
		own := root
		own.RawQuery = base.RawQuery
		if joined, err := own.Parse(wellKnown + path); err == nil {
			own.Path, own.RawPath = joined.Path, joined.RawPath
			out = append(out, own.String())
		}
	}
	out = append(out, root.String())
	if len(out) > 1 && out[0] == out[1] {
		out = out[1:]
	}
	return out
}

// fetchMetadata reads one document. Whatever is not 200 with a JSON object that
// has one of the known members is no metadata.
func (v *visit) fetchMetadata(ctx context.Context, client *http.Client, at string) (metadata, bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return metadata{}, false
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", v.agent)
	resp, err := client.Do(req)
	if err != nil {
		return metadata{}, false
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return metadata{}, false
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return metadata{}, false
	}
	return parseMetadata(v.badge.whole(body))
}

func parseMetadata(body []byte) (metadata, bool) {
	fields, err := members(body, "resource", "authorization_servers", "scopes_supported")
	if err != nil || len(fields) == 0 {
		return metadata{}, false
	}
	resource, _ := text(fields["resource"])
	m := metadata{resource: outbound.Excerpt(resource, urlBytes)}
	m.issuers, m.scopes = printable(fields["authorization_servers"]), printable(fields["scopes_supported"])
	return m, m.resource != "" || len(m.issuers) > 0
}

// printable gives the strings of an array; nothing when it is something else.
func printable(raw rawValue) []string {
	var all, out []string
	if raw == nil || json.Unmarshal(raw, &all) != nil {
		return nil
	}
	for _, one := range all[:min(len(all), 100)] {
		if one != "" {
			out = append(out, outbound.Excerpt(one, urlBytes))
		}
	}
	return out
}
