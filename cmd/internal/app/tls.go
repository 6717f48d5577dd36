package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"countersign/cmd/internal/config"
)

// lookAgain is how often the files of a certificate are looked at, when
// somebody connects.
const lookAgain = time.Second

// certificates are those that the API is served with. Files that change are read
// again; while what they hold does not fit together, the ones before stay.
type certificates struct {
	files config.TLS
	log   *slog.Logger

	mu     sync.Mutex
	config *tls.Config
	looked time.Time
	seen   [3]stamp
}

// stamp tells a changed file.
type stamp struct {
	at   time.Time
	size int64
}

// secured gives the listeners of the API by TLS, if the configuration says so.
func secured(c config.TLS, log *slog.Logger) (func(net.Listener) net.Listener, error) {
	if !c.Enabled() {
		return func(l net.Listener) net.Listener { return l }, nil
	}
	k := &certificates{files: c, log: log}
	k.seen = k.stamps()
	var err error
	if k.config, err = load(c); err != nil {
		return nil, err
	}
	k.looked = time.Now()
	return func(l net.Listener) net.Listener {
		return tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: k.now, NextProtos: protocols})
	}, nil
}

// CheckTLS says what is wrong with the files of the certificate, if there are any.
func CheckTLS(c config.TLS) error {
	if !c.Enabled() {
		return nil
	}
	_, err := load(c)
	return err
}

// protocols are HTTP/2, which gRPC needs, and HTTP/1.1.
var protocols = []string{"h2", "http/1.1"}

func load(c config.TLS) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("tls.cert_file and tls.key_file: %w", err)
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: protocols}
	if c.ClientCAFile == "" {
		return out, nil
	}
	pem, err := os.ReadFile(c.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("tls.client_ca_file: %w", err)
	}
	out.ClientCAs, out.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !out.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("tls.client_ca_file: %s has no certificate", c.ClientCAFile)
	}
	return out, nil
}

// now gives the configuration of a new connection. Sessions are resumed under
// the configuration that they began with only.
func (k *certificates) now(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.looked) < lookAgain {
		return k.config, nil
	}
	k.looked = time.Now()
	seen := k.stamps()
	if seen == k.seen {
		return k.config, nil
	}
	k.seen = seen
	k.read(hello.Context())
	return k.config, nil
}

func (k *certificates) read(ctx context.Context) {
	fresh, err := load(k.files)
	if err != nil {
		k.log.LogAttrs(ctx, slog.LevelError, "certificates not reloaded", slog.Any("error", err))
		return
	}
	k.config = fresh
	k.log.LogAttrs(ctx, slog.LevelInfo, "certificates reloaded")
}

func (k *certificates) stamps() (out [3]stamp) {
	for i, file := range []string{k.files.CertFile, k.files.KeyFile, k.files.ClientCAFile} {
		if info, err := os.Stat(file); err == nil {
			out[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return out
}
