package db

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// Op is how a condition compares.
type Op string

// The comparisons. OpHas means contains, whatever the case; with the value "*"
// it means that there is any.
const (
	OpIs    Op = "="
	OpIsNot Op = "!="
	OpHas   Op = ":"
)

// Condition is one comparison of a filter. All conditions of a query must hold.
type Condition struct {
	Field string // one of those the query allows
	Op    Op
	Value string
}

// Order is what a list is sorted by. Ties are broken by id (S1).
type Order struct {
	Field string // one of those the query allows; empty: the first of them
	Desc  bool
}

// field is a column that a query can ask for.
type field struct {
	sql  string
	kind fieldKind
}

type fieldKind int

const (
	textField fieldKind = iota
	boolField
	labelField // asked for by labels.KEY
)

// where adds a condition to a query. The args are those of the field's SQL.
func (e engine) where(q *bun.SelectQuery, c Condition, fields map[string]field, args ...any) (*bun.SelectQuery, error) {
	f, known := fields[c.Field]
	known = known && f.kind != labelField
	column := bun.SafeQuery(f.sql, args...)
	if name, isLabel := strings.CutPrefix(c.Field, "labels."); isLabel {
		known = fields["labels"].kind == labelField && name != ""
		column = bun.SafeQuery("COALESCE("+e.label+", '')", name)
	}
	if !known {
		return nil, registry.Errorf(registry.ReasonInvalidFilter, "the filter asks for a field that does not exist").With("field", c.Field)
	}
	if f.kind == boolField {
		if c.Op == OpHas || c.Value != "true" && c.Value != "false" {
			return nil, registry.Errorf(registry.ReasonInvalidFilter, "the field %s is true or false", c.Field).With("field", c.Field)
		}
		return q.Where("(?) = ?", column, (c.Value == "true") == (c.Op == OpIs)), nil
	}
	switch c.Op {
	case OpIs:
		return q.Where("? = ?", column, c.Value), nil
	case OpIsNot:
		return q.Where("? <> ?", column, c.Value), nil
	case OpHas:
		if c.Value == "*" {
			return q.Where("? <> ''", column), nil
		}
		return q.Where(e.contains, column, c.Value), nil
	}
	return nil, registry.Errorf(registry.ReasonInvalidFilter, "the filter has an unknown comparison").With("field", c.Field)
}

// cursor is the key of the last row of a page: the value it is sorted by, and
// the ids that break ties.
type cursor []string

func (c cursor) String() string {
	out, _ := json.Marshal([]string(c)) //nolint:errchkjson // strings marshal
	return string(out)
}

// after keeps the rows that come after the cursor, and sorts. The columns are
// the sorted one and the ones that break ties.
func (p Page) after(q *bun.SelectQuery, desc, isTime bool, columns ...string) (*bun.SelectQuery, error) {
	beyond := ">"
	if desc {
		beyond = "<"
	}
	if p.After != "" {
		values, err := p.cursor(len(columns), isTime)
		if err != nil {
			return nil, err
		}
		q = q.Where("("+strings.Join(columns, ", ")+") "+beyond+" (?)", bun.List(values))
	}
	return sort(q, desc, columns...).Limit(int64(p.size() + 1)), nil // one more says whether there is a next page
}

func sort(q *bun.SelectQuery, desc bool, columns ...string) *bun.SelectQuery {
	for _, column := range columns {
		if desc {
			column += " DESC"
		}
		q = q.OrderExpr(column)
	}
	return q
}

func (p Page) cursor(n int, isTime bool) ([]any, error) {
	var key cursor
	if err := json.Unmarshal([]byte(p.After), &key); err != nil || len(key) != n {
		return nil, registry.Errorf(registry.ReasonInvalidPageToken, "the page token cannot be read")
	}
	values := make([]any, n)
	for i, v := range key {
		values[i] = v
	}
	if isTime {
		at, err := time.Parse(time.RFC3339Nano, key[0])
		if err != nil {
			return nil, registry.Errorf(registry.ReasonInvalidPageToken, "the page token cannot be read")
		}
		values[0] = at
	}
	return values, nil
}

// Sizes of pages.
const (
	DefaultPageSize = 50
	MaxPageSize     = 1000
)

func (p Page) size() int {
	if p.Size <= 0 {
		return DefaultPageSize
	}
	return min(p.Size, MaxPageSize)
}

// cut takes the surplus row off and makes the key of the next page.
func cut[T any](p Page, rows []T, key func(*T) cursor) ([]T, string) {
	if len(rows) <= p.size() {
		return rows, ""
	}
	rows = rows[:p.size()]
	return rows, key(&rows[len(rows)-1]).String()
}

// before keeps the rows of smaller ids than the key, the greatest first.
func (p Page) before(q *bun.SelectQuery, column string) (*bun.SelectQuery, error) {
	return p.byID(q, column, "<", " DESC")
}

// beyond keeps the rows of greater ids than the key, the smallest first.
func (p Page) beyond(q *bun.SelectQuery, column string) (*bun.SelectQuery, error) {
	return p.byID(q, column, ">", "")
}

func (p Page) byID(q *bun.SelectQuery, column, beyond, order string) (*bun.SelectQuery, error) {
	if p.After != "" {
		values, err := p.cursor(1, false)
		if err != nil {
			return nil, err
		}
		id, err := strconv.ParseInt(fmt.Sprint(values...), 10, 64)
		if err != nil {
			return nil, registry.Errorf(registry.ReasonInvalidPageToken, "the page token cannot be read")
		}
		q = q.Where(column+" "+beyond+" ?", id)
	}
	return q.OrderExpr(column + order).Limit(int64(p.size() + 1)), nil
}

func idKey(id int64) string { return strconv.FormatInt(id, 10) }

func timeKey(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func number(n int64, err error) (int, error) { return int(n), err }
