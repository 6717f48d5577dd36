package events

import (
	"bytes"
	"context"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"countersign/outbound"
	"countersign/registry"
	"countersign/secrets"
)

// Secrets resolves the references of a tenant; [secrets.Shared] does.
type Secrets interface {
	Resolve(ctx context.Context, tenant, reference string) (secrets.Value, error)
}

// Webhooks sends CloudEvents by HTTP POST, signed as Standard Webhooks says.
type Webhooks struct {
	client  *http.Client
	secrets Secrets
}

// NewWebhooks sends through a guard.
func NewWebhooks(guard *outbound.Guard, s Secrets) *Webhooks {
	// What receivers answer is not read, so there is no total to bound.
	return &Webhooks{guard.Client(outbound.ClientOptions{ResponseBytes: 64 << 10, TotalBytes: math.MaxInt64}), s}
}

// DeliveryError is why a delivery did not succeed. It holds nothing that the receiver
// said but the status.
type DeliveryError struct {
	Status  int           // HTTP; 0: there was no answer
	Problem string        // for the delivery log
	After   time.Duration // the receiver asks not to be tried before; 0: it does not
}

func (f *DeliveryError) Error() string { return f.Problem }

// maxAfter bounds what Retry-After may ask for.
const maxAfter = time.Hour

// Send delivers one event, and gives the status of the answer. Any but a 2xx is a
// [DeliveryError]; redirects are not followed.
func (w *Webhooks) Send(ctx context.Context, u registry.Subscription, id string, body []byte, now time.Time) (int, error) {
	var keys [][]byte
	for _, reference := range []string{u.Secret, u.PreviousSecret} {
		if reference == "" {
			continue
		}
		value, err := w.secrets.Resolve(ctx, u.TenantID, reference)
		if err != nil {
			return 0, failed(err)
		}
		k, err := key(value)
		if err != nil {
			return 0, failed(err)
		}
		keys = append(keys, k)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.URL, bytes.NewReader(body))
	if err != nil {
		return 0, &DeliveryError{Problem: "the URL cannot be used"}
	}
	req.Header.Set("Content-Type", ContentType)
	req.Header.Set("User-Agent", "countersign")
	req.Header.Set(headerID, id)
	req.Header.Set(headerTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(headerSignature, sign(id, now, body, keys...))
	res, err := w.client.Do(req)
	if err != nil {
		return 0, failed(err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection can be used again
	_ = res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 299 {
		f := &DeliveryError{Status: res.StatusCode, Problem: "the receiver answered " + strconv.Itoa(res.StatusCode)}
		if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds > 0 {
			f.After = min(time.Duration(min(seconds, 1<<20))*time.Second, maxAfter)
		}
		return res.StatusCode, f
	}
	return res.StatusCode, nil
}

// failed keeps, of an error with a reason, what can be shown to the tenant.
func failed(err error) *DeliveryError {
	if e, ok := registry.AsError(err); ok {
		return &DeliveryError{Problem: string(e.Reason) + ": " + e.Message}
	}
	return &DeliveryError{Problem: "the exchange failed"}
}
