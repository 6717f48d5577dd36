package db

import (
	"context"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// Facet is how many of the tools that a filter asks for have each value of a
// field: the most frequent values first, and of equals the smaller one.
type Facet struct {
	Field  string
	Values []FacetValue
	Others int // values that are not listed
}

// FacetValue is one value of a facet. An empty one counts the tools without.
type FacetValue struct {
	Value string
	Count int
}

// MaxFacetValues is how many values of a field are listed.
const MaxFacetValues = 100

// facetFields are the fields of facets, in their order, each with its value in
// terms of the columns of a chosen tool.
var facetFields = []struct{ name, sql string }{
	{"server", "server"},
	{"provider", "provider"},
	{"class", "class"},
	{"enabled", truth("enabled")},
	{"available", truth("available")},
	{"bound", truth("bound")},
	{"callable", truth("serving AND enabled AND available AND bound AND NOT blocked")},
	{"quarantined", truth("quarantined")},
	{"requires_approval", truth("requires_approval")},
}

// FacetFields lists the fields that facets are of.
func FacetFields() []string {
	out := make([]string, len(facetFields))
	for i, f := range facetFields {
		out[i] = f.name
	}
	return out
}

func truth(sql string) string { return "CASE WHEN " + sql + " THEN 'true' ELSE 'false' END" }

// ToolFacets counts the tools that a query asks for, whatever its page and
// order, by the values of fields; without fields by those of all. total is the
// number of all that match.
func (s *Store) ToolFacets(ctx context.Context, query ToolQuery, fields []string) (facets []Facet, total int, err error) {
	if len(fields) == 0 {
		fields = FacetFields()
	}
	err = s.read(ctx, "count tools", func(ctx context.Context, q bun.IDB) error {
		now, err := s.db.engine.now(ctx, q)
		if err != nil {
			return err
		}
		counting, err := s.counting(ctx, q, &query, fields, now)
		if err != nil {
			return err
		}
		var rows []struct {
			Field, Value string
			N            int
		}
		if err := counting.Scan(ctx, &rows); err != nil {
			return err
		}
		facets = make([]Facet, len(fields))
		at := map[string]*Facet{}
		for i, name := range fields {
			facets[i].Field = name
			at[name] = &facets[i]
		}
		for _, row := range rows {
			switch f := at[row.Field]; {
			case f == nil:
				total = row.N
			case len(f.Values) < MaxFacetValues:
				f.Values = append(f.Values, FacetValue{row.Value, row.N})
			default:
				f.Others++
			}
		}
		return nil
	})
	return facets, total, err
}

// counting reads the chosen tools once and counts them by each field.
func (s *Store) counting(ctx context.Context, q bun.IDB, query *ToolQuery, fields []string, now time.Time) (*bun.RawQuery, error) {
	chosen, err := s.chosenTools(ctx, q, query, now)
	if err != nil {
		return nil, err
	}
	models, err := s.mentioned(ctx, q)
	if err != nil {
		return nil, err
	}
	chosen = chosen.ColumnExpr("s.name AS server, p.name AS provider, "+classOf+" AS class, t.enabled, t.available, "+
		bindingOf("TRUE")+" IS NOT NULL AS bound, t.verdict <> '' AS quarantined, t.requires_approval, "+serving+" AS serving, ? AS blocked",
		now, blocked(models))
	var b strings.Builder
	b.WriteString("WITH chosen AS MATERIALIZED (?) SELECT '' AS field, '' AS value, count(*) AS n FROM chosen")
	for _, name := range fields {
		sql := ""
		for _, f := range facetFields {
			if f.name == name {
				sql = f.sql
			}
		}
		if sql == "" {
			return nil, registry.Errorf(registry.ReasonInvalidArgument, "tools are not counted by %q", name).
				WithField("facets", "is of %s", strings.Join(FacetFields(), ", "))
		}
		b.WriteString(" UNION ALL SELECT '" + name + "', " + sql + ", count(*) FROM chosen GROUP BY 2")
	}
	return q.NewRaw("SELECT field, value, n FROM ("+b.String()+") AS counted ORDER BY n DESC, value", chosen), nil
}
