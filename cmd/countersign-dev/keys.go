package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"countersign/cmd/internal/app"
	"countersign/cmd/internal/config"
	"countersign/oauth"
	"countersign/registry"
	"countersign/secrets"
)

// devAudit gives the keys of the audit trail: the configured ones, else one
// that the first start makes and keeps in a file.
func devAudit(ctx context.Context, conf config.Config, file string) (app.AuditKeys, error) {
	keys, err := app.Audit(ctx, conf)
	if err != nil || keys.Signer != nil {
		return keys, err
	}
	text, err := keptKey(file, func() (any, error) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	})
	if err != nil {
		return keys, err
	}
	if keys.Signer, err = registry.ParseAuditSigner(text); err != nil {
		return keys, fmt.Errorf("%s: %w", file, err)
	}
	return keys, nil
}

// workloadPath is where the API has the documents of the issuer of our own.
const workloadPath = "/workload"

// devMint gives the issuer of our own: the configured one, else one at this address,
// with a key that the first start makes and keeps in a file.
func devMint(ctx context.Context, conf config.Config, api, file string) (*oauth.Mint, error) {
	mint, err := app.Mint(ctx, conf)
	if err != nil || mint != nil {
		return mint, err
	}
	text, err := keptKey(file, func() (any, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) })
	if err != nil {
		return nil, err
	}
	key, err := oauth.ParseKey(secrets.Secret(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return oauth.NewMint(api+workloadPath, key, conf.WorkloadIdentity.TokenLifetime, nil)
}

// keptKey reads the private key of a file in PEM, and makes it when there is none.
func keptKey(file string, generate func() (any, error)) (string, error) {
	text, err := os.ReadFile(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return string(text), err
	}
	key, err := generate()
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	text = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return string(text), os.WriteFile(file, text, 0o600)
}
