package outbound

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"countersign/registry"
)

// explain turns an error of net, crypto/tls or net/http into one with a reason.
// A cancelled context stays what it is: that is the caller's doing, not the
// server's. Texts of a peer or of a resolver are not repeated, since they may
// hold anything; the original stays reachable by errors.Is.
func explain(ctx context.Context, host string, err error) error {
	if _, known := registry.AsError(err); known || errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	host = Excerpt(host, 260)
	var timeout net.Error
	switch text := err.Error(); {
	case isTLS(err):
		return explainTLS(host, err)
	case ctx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		return because(err, registry.ReasonTimeout, "%s did not answer in time", host)
	case strings.Contains(text, "response headers exceeded"), strings.Contains(text, "header list larger"):
		return because(err, registry.ReasonTooLarge, "the headers of the answer are larger than %d bytes", maxHeaderBytes).
			With("limit_bytes", strconv.Itoa(maxHeaderBytes)).With("scope", "headers")
	case strings.Contains(text, "malformed"), strings.Contains(text, "unexpected alpn protocol"):
		return because(err, registry.ReasonProtocolError, "what answers at %s does not speak HTTP", host).With("phase", "http")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		strings.Contains(text, "server closed idle connection"):
		return because(err, registry.ReasonUnreachable, "%s closed the connection before its answer was complete", host)
	case strings.Contains(text, "gzip: "), strings.Contains(text, "flate: "):
		return because(err, registry.ReasonProtocolError, "the answer of %s is badly compressed", host)
	}
	return because(err, registry.ReasonUnreachable, "the exchange with %s failed", host)
}

func because(cause error, reason registry.Reason, format string, args ...any) *registry.Error {
	e := registry.Errorf(reason, format, args...)
	e.Err = cause
	return e
}

func connectFault(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route"
	case errors.Is(err, syscall.ECONNRESET):
		return "connection reset"
	}
	return "it failed"
}

func lookupFault(ctx context.Context, err error) string {
	var dns *net.DNSError
	switch {
	case err == nil:
		return "it has no address"
	case ctx.Err() != nil, errors.As(err, &dns) && dns.IsTimeout:
		return "the resolver did not answer in time"
	case errors.As(err, &dns) && dns.IsNotFound:
		return "no such host"
	}
	return "the look-up failed"
}

func isTLS(err error) bool {
	var (
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
		alert       tls.AlertError
	)
	if errors.As(err, &certificate) || errors.As(err, &record) || errors.As(err, &alert) {
		return true
	}
	// Alerts of the peer and faults of the handshake have no exported type.
	text := err.Error()
	return strings.HasPrefix(text, "tls: ") || strings.HasPrefix(text, "remote error: tls: ") ||
		strings.HasPrefix(text, "local error: tls: ")
}

func explainTLS(host string, err error) error {
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return because(err, registry.ReasonTLS, "%s does not speak TLS on this port", host).
			With("phase", "tls").
			WithNext("check the port; if the server has no TLS, its URL starts with http://")
	}
	var failed *tls.CertificateVerificationError
	if !errors.As(err, &failed) {
		return because(err, registry.ReasonTLS, "no TLS session with %s: %s", host, handshakeFault(err)).With("phase", "tls")
	}
	e := because(err, registry.ReasonTLS, "the certificate of %s is not acceptable: %s", host, certificateFault(failed.Err)).
		With("phase", "tls")
	if len(failed.UnverifiedCertificates) > 0 {
		leaf := failed.UnverifiedCertificates[0]
		print256 := sha256.Sum256(leaf.Raw)
		e.With("certificate_subject", Excerpt(leaf.Subject.String(), 200)).
			With("certificate_issuer", Excerpt(leaf.Issuer.String(), 200)).
			With("certificate_names", Excerpt(strings.Join(leaf.DNSNames, ","), 200)).
			With("certificate_not_before", leaf.NotBefore.UTC().Format(time.RFC3339)).
			With("certificate_not_after", leaf.NotAfter.UTC().Format(time.RFC3339)).
			With("certificate_sha256", hex.EncodeToString(print256[:]))
	}
	return e.WithNext("let the server present a valid certificate, or ask the operator to trust its authority; there is no insecure mode")
}

func certificateFault(err error) string {
	var (
		invalid   x509.CertificateInvalidError
		hostname  x509.HostnameError
		authority x509.UnknownAuthorityError
	)
	switch {
	case errors.As(err, &hostname):
		return "it is for another name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "it has expired or is not valid yet"
	case errors.As(err, &authority):
		return "its authority is not known"
	}
	return "it does not verify"
}

func handshakeFault(err error) string {
	_, text, _ := strings.Cut(err.Error(), "tls: ")
	if strings.Contains(text, "protocol version") {
		return "it offers nothing newer than TLS 1.1"
	}
	// The texts of crypto/tls are its own, not the peer's words.
	return Excerpt(text, 100)
}
