package app

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"

	"countersign/cmd/internal/config"
)

func TestTheIssuerOfOursHasItsKeyByReference(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TEST_WORKLOAD_KEY", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})))
	t.Setenv("TEST_WORKLOAD_TEXT", "a-secret that is no key")
	conf := config.Default()
	if mint, err := Mint(t.Context(), conf); mint != nil || err != nil {
		t.Errorf("without a configuration: %v", err)
	}
	conf.WorkloadIdentity.Issuer, conf.WorkloadIdentity.Key = "https://cs.example.com/base", "env:TEST_WORKLOAD_KEY"
	mint, err := Mint(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	if open := (App{Mint: mint}).open(); len(open) != 3 || open["/base/.well-known/jwks.json"] == nil {
		t.Errorf("everybody may read %v", open)
	}
	if !(App{Mint: mint}).installation(nil).OwnIssuer || (App{}).installation(nil).OwnIssuer || (App{}).open() != nil {
		t.Error("an installation does not know whether it has an issuer")
	}
	for _, ref := range []string{"env:TEST_WORKLOAD_TEXT", "env:TEST_WORKLOAD_NOTHING"} {
		conf.WorkloadIdentity.Key = ref
		if _, err := Mint(t.Context(), conf); err == nil || !strings.Contains(err.Error(), "workload_identity.key") || strings.Contains(err.Error(), "a-secret") {
			t.Errorf("%s: %v", ref, err)
		}
	}
}
