package db

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"countersign/registry"
)

type tokenRow struct {
	bun.BaseModel `bun:"table:decision_tokens,alias:k"`
	registry.DecisionToken
	Hash string `bun:"token_hash"`
}

// MintToken keeps what a decision token is good for, under the hash of its
// secret, with its audit row.
func (s *Store) MintToken(ctx context.Context, k registry.DecisionToken, secret string, ttl time.Duration, op registry.Operation) (registry.DecisionToken, error) {
	err := s.write(ctx, op.Name, func(ctx context.Context, t *tx) error {
		row, err := t.lockServer(ctx, k.ServerID)
		if err != nil {
			return err
		}
		if err := t.setNow(ctx); err != nil {
			return err
		}
		if err := t.forgetTokens(ctx); err != nil {
			return err
		}
		k.TenantID, k.CreatedAt, k.ExpiresAt = t.tenant, t.now, t.now.Add(ttl)
		if _, err := t.NewInsert().Model(&tokenRow{DecisionToken: k, Hash: registry.TokenHash(secret)}).Exec(ctx); err != nil {
			return err
		}
		e := entry(op, &row.Server)
		e.Note = "decision token " + k.TokenID + " to " + string(k.Verb) + " " + k.Digest
		return t.audit(ctx, e)
	})
	if err != nil {
		return registry.DecisionToken{}, err
	}
	return k, nil
}

// Tokens that are over are kept for so long, to be told what they were; who makes
// another then takes away some of those that are older.
const (
	keepTokens   = 30 * 24 * time.Hour
	forgetTokens = 100
)

func (t *tx) forgetTokens(ctx context.Context) error {
	old := t.NewSelect().Model((*tokenRow)(nil)).Column("token_id").
		Where("k.tenant_id = ? AND k.expires_at < ?", t.tenant, t.now.Add(-keepTokens)).Limit(forgetTokens)
	_, err := t.NewDelete().Model((*tokenRow)(nil)).Where("k.tenant_id = ? AND k.token_id IN (?)", t.tenant, old).Exec(ctx)
	return err
}

// ClaimToken gives a token to the one signal that uses it: a repeat of the same
// signal gets it again. The error says why not: it is not of the tenant, used or
// over, or it does not cover what it is wanted for; with the last three the token
// comes along, and is not used up.
func (s *Store) ClaimToken(ctx context.Context, secret, signal string, covers func(registry.DecisionToken) error) (registry.DecisionToken, error) {
	var (
		row     tokenRow
		refusal error
	)
	err := s.write(ctx, "claim_token", func(ctx context.Context, t *tx) error {
		row, refusal = tokenRow{}, nil
		q := t.NewSelect().Model(&row).Where("k.tenant_id = ? AND k.token_hash = ?", t.tenant, registry.TokenHash(secret))
		if t.engine.forUpdate != "" {
			q = q.For(t.engine.forUpdate)
		}
		err := q.Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			refusal = registry.Errorf(registry.ReasonTokenUnknown, "there is no such decision token")
			return nil
		}
		if err != nil {
			return err
		}
		if err := t.setNow(ctx); err != nil {
			return err
		}
		switch {
		case row.UsedBy == signal:
			return nil
		case row.UsedBy != "":
			refusal = registry.Errorf(registry.ReasonTokenUsed, "decision token %s was used at %s", row.TokenID, row.UsedAt.UTC().Format(time.RFC3339))
			return nil
		case !t.now.Before(row.ExpiresAt):
			refusal = registry.Errorf(registry.ReasonTokenExpired, "decision token %s was good until %s", row.TokenID, row.ExpiresAt.UTC().Format(time.RFC3339))
			return nil
		}
		if refusal = covers(row.DecisionToken); refusal != nil {
			return nil //nolint:nilerr // the refusal is the answer, and is no failure of the transaction
		}
		row.UsedAt, row.UsedBy = t.now, signal
		_, err = t.NewUpdate().Model(&row).Column("used_at", "used_by").WherePK().Exec(ctx)
		return err
	})
	if err != nil {
		return registry.DecisionToken{}, err
	}
	return row.DecisionToken, refusal
}
