package db

import (
	"context"
	"reflect"
	"slices"

	"github.com/uptrace/bun"
)

// bulkRows is the most rows of one statement. Bun writes values into the text,
// where the engines' limits on parameters (32,766 and 65,535) do not count; this
// bounds the length of the text instead.
const bulkRows = 500

// insert adds rows, many at a time. on is what follows ON, or empty.
func insert[T any](ctx context.Context, q bun.IDB, rows []T, on string) error {
	for chunk := range slices.Chunk(rows, bulkRows) {
		insert := q.NewInsert().Model(&chunk)
		if on != "" {
			insert = insert.On(on)
		}
		if _, err := insert.Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// upsert adds rows, or overwrites those of the same key but for the columns that
// are to stay as they are.
func upsert[T any](ctx context.Context, q bun.IDB, rows []T, key string, stay ...string) error {
	on := "CONFLICT (" + key + ") DO UPDATE"
	if len(stay) == 0 {
		return insert(ctx, q, rows, on)
	}
	for chunk := range slices.Chunk(rows, bulkRows) {
		insert := q.NewInsert().Model(&chunk).On(on)
		for _, field := range q.Dialect().Tables().Get(reflect.TypeFor[T]()).DataFields {
			if !slices.Contains(stay, field.Name) {
				insert = insert.Set("? = EXCLUDED.?", bun.Ident(field.Name), bun.Ident(field.Name))
			}
		}
		if _, err := insert.Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}
