package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"countersign/cmd/internal/app"
	"countersign/cmd/internal/config"
	"countersign/registry"
)

// devAudit gives the keys of the audit trail: the configured ones, else one
// that the first start makes and keeps in a file.
func devAudit(ctx context.Context, conf config.Config, file string) (app.AuditKeys, error) {
	keys, err := app.Audit(ctx, conf)
	if err != nil || keys.Signer != nil {
		return keys, err
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = makeAuditKey(file)
	}
	if err != nil {
		return keys, err
	}
	if keys.Signer, err = registry.ParseAuditSigner(string(text)); err != nil {
		return keys, fmt.Errorf("%s: %w", file, err)
	}
	return keys, nil
}

func makeAuditKey(file string) ([]byte, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return text, os.WriteFile(file, text, 0o600)
}
