package aep

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"countersign/outbound"
	"countersign/registry"
)

// Where descriptors are. The older path is tried when the other answers 404,
// and for no other reason.
const (
	Path      = "/.well-known/aep"
	PathAlias = "/.well-known/agentstration"
)

// Client fetches descriptors. A descriptor is public: no credential of ours goes
// to an extension.
type Client struct {
	Guard *outbound.Guard
	// Timeout bounds one fetch with both paths; asked each time.
	Timeout func() time.Duration
	// Agent is what extensions are told about us; "countersign" when empty.
	Agent string
}

// Found is a descriptor and where it was.
type Found struct {
	Descriptor
	URL string
}

// Fetch gets the descriptor of the extension at a base URL, which must have the
// id want.
func (c *Client) Fetch(ctx context.Context, base, want string) (Found, error) {
	if err := registry.CheckEndpoint(base); err != nil {
		return Found{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout())
	defer cancel()
	client := c.Guard.Client(outbound.ClientOptions{ResponseBytes: MaxBytes, TotalBytes: 2 * MaxBytes})
	defer client.CloseIdleConnections()
	for _, path := range []string{Path, PathAlias} {
		at, err := Resolve(base, path)
		if err != nil {
			return Found{}, err
		}
		raw, missing, err := c.get(ctx, client, at)
		if err != nil {
			return Found{}, err
		}
		if missing {
			continue
		}
		d, err := Parse(raw, base, want)
		return Found{d, at}, err
	}
	return Found{}, invalidResponse("the extension has no descriptor, neither at %s nor at %s", Path, PathAlias).With("http_status", "404")
}

// get gives the body of one answer; missing says that it was 404.
func (c *Client) get(ctx context.Context, client *http.Client, at string) (raw []byte, missing bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return nil, false, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", agent(c.Agent))
	resp, err := client.Do(req)
	if err != nil {
		return nil, false, unreachable(ctx, err)
	}
	defer resp.Body.Close()
	status := strconv.Itoa(resp.StatusCode)
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return nil, true, nil
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusRequestTimeout:
		return nil, false, registry.Errorf(registry.ReasonExtensionUnreachable, "the extension answers HTTP status %s", status).With("http_status", status)
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return nil, false, invalidResponse("the extension answers with a redirect (HTTP status %s), which is not followed", status).With("http_status", status)
	case resp.StatusCode != http.StatusOK:
		return nil, false, invalidResponse("the extension answers HTTP status %s", status).With("http_status", status)
	}
	if kind := resp.Header.Get("Content-Type"); !isJSON(kind) {
		return nil, false, invalidResponse("the answer is %s, and not JSON", outbound.Excerpt(kind, 100))
	}
	raw, err = io.ReadAll(resp.Body)
	if err != nil {
		return nil, false, unreachable(ctx, err)
	}
	return raw, false, nil
}

func agent(name string) string {
	if name == "" {
		return "countersign"
	}
	return name
}

// isJSON says whether a content type is JSON. An answer that states none is
// read.
func isJSON(kind string) bool {
	if kind == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(kind)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

// unreachable gives an error of the guard's client the protocol's code. What our
// own guard forbids stays that, and so does the end of our own work.
func unreachable(ctx context.Context, err error) error {
	e, known := registry.AsError(err)
	switch {
	case !known && errors.Is(ctx.Err(), context.Canceled):
		return err
	case !known:
		return registry.Errorf(registry.ReasonExtensionUnreachable, "the exchange with the extension failed")
	case e.Reason == registry.ReasonBlockedAddress:
		return e
	case e.Reason == registry.ReasonTooLarge || e.Reason == registry.ReasonProtocolError:
		return invalidResponse("%s", e.Message)
	}
	out := registry.Errorf(registry.ReasonExtensionUnreachable, "%s", e.Message).With("cause", string(e.Reason))
	out.Next = e.Next
	return out
}
