package config

import "fmt"

// TLS says with which certificate the API is served. The files are read again
// when they change.
type TLS struct {
	CertFile     string `koanf:"cert_file"` // PEM: the certificate, then those that lead to its root
	KeyFile      string `koanf:"key_file"`
	ClientCAFile string `koanf:"client_ca_file"` // of whose certificates every caller needs one; empty: none is asked for
}

// Enabled says whether the API is served by TLS.
func (t TLS) Enabled() bool { return t.CertFile != "" }

func (t TLS) validate() error {
	if (t.CertFile == "") != (t.KeyFile == "") {
		return fmt.Errorf("tls.cert_file and tls.key_file go together")
	}
	if t.ClientCAFile != "" && t.CertFile == "" {
		return fmt.Errorf("tls.client_ca_file needs tls.cert_file")
	}
	return nil
}
