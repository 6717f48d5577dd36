package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"countersign/registry"
)

// certificateFiles are what TLS to an API needs besides what the system has.
type certificateFiles struct {
	CA   string `yaml:"ca_file,omitempty"`          // of authorities that are trusted besides the system's
	Cert string `yaml:"client_cert_file,omitempty"` // who we are, where the API asks (mutual TLS)
	Key  string `yaml:"client_key_file,omitempty"`
}

func addCertificateFlags(flags *pflag.FlagSet, f *certificateFiles) {
	flags.StringVar(&f.CA, "ca-file", "", "`FILE` of certificates of authorities to trust besides the system's (env COUNTERSIGN_CA_FILE)")
	flags.StringVar(&f.Cert, "client-cert", "", "`FILE` of the client's certificate, for mutual TLS (env COUNTERSIGN_CLIENT_CERT)")
	flags.StringVar(&f.Key, "client-key", "", "`FILE` of the certificate's private key (env COUNTERSIGN_CLIENT_KEY)")
}

func (f certificateFiles) check(from string) error {
	if (f.Cert == "") != (f.Key == "") {
		return usagef("%s: a client's certificate and its key go together", from)
	}
	return nil
}

// over gives the files of f, and those of rest where f has none. A certificate
// and its key are one.
func (f certificateFiles) over(rest certificateFiles) certificateFiles {
	if f.CA == "" {
		f.CA = rest.CA
	}
	if f.Cert == "" {
		f.Cert, f.Key = rest.Cert, rest.Key
	}
	return f
}

// absolute gives the files by names that hold everywhere.
func (f certificateFiles) absolute() (certificateFiles, error) {
	for _, name := range []*string{&f.CA, &f.Cert, &f.Key} {
		if *name == "" {
			continue
		}
		path, err := filepath.Abs(*name)
		if err != nil {
			return f, err
		}
		*name = path
	}
	return f, nil
}

// transport gives what speaks to the API: by the flags, then a named context, the
// environment, the current context. Those of a context are for its server only.
func (c *cli) transport(saved savedContext, named, fromContext bool) (http.RoundTripper, error) {
	env := certificateFiles{CA: c.getenv("COUNTERSIGN_CA_FILE"), Cert: c.getenv("COUNTERSIGN_CLIENT_CERT"), Key: c.getenv("COUNTERSIGN_CLIENT_KEY")}
	if err := env.check("COUNTERSIGN_CLIENT_CERT and COUNTERSIGN_CLIENT_KEY"); err != nil {
		return nil, err
	}
	files := c.files
	switch {
	case !fromContext:
		files = files.over(env)
	case named:
		files = files.over(saved.Certificates).over(env)
	default:
		files = files.over(env).over(saved.Certificates)
	}
	return files.transport()
}

func (f certificateFiles) transport() (http.RoundTripper, error) {
	if f == (certificateFiles{}) {
		return http.DefaultTransport, nil
	}
	if err := f.check("the context"); err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, failf(registry.ReasonInvalidArgument, "reading the certificates of authorities: %s", err)
		}
		if config.RootCAs, err = x509.SystemCertPool(); err != nil {
			config.RootCAs = x509.NewCertPool()
		}
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, failf(registry.ReasonInvalidArgument, "%s has no certificate in PEM", f.CA)
		}
	}
	if f.Cert != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, failf(registry.ReasonInvalidArgument, "reading the client's certificate: %s", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, failf(registry.ReasonInternal, "the default transport is not net/http's")
	}
	transport = transport.Clone()
	transport.TLSClientConfig = config
	return transport, nil
}

type transportKey struct{}

// speaking gives a context in which issuers are asked by the API's transport:
// who has an authority of their own has it for both.
func speaking(ctx context.Context, transport http.RoundTripper) context.Context {
	return context.WithValue(ctx, transportKey{}, transport)
}

// transportOf gives that transport; nil is the default one.
func transportOf(ctx context.Context) http.RoundTripper {
	transport, _ := ctx.Value(transportKey{}).(http.RoundTripper)
	return transport
}
