package api

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
	"countersign/registry"
)

var someFields = map[string]field{
	"name": {kind: textField}, "bound": {kind: boolField}, "labels": {kind: mapField},
	"state": {kind: wordField, words: map[string]string{"active": "active", "MCP_SERVER_STATE_ACTIVE": "active", "retired": "retired"}},
}

func TestFiltersThatAreUnderstood(t *testing.T) {
	t.Parallel()
	for filter, want := range map[string][][3]string{
		"":                              nil,
		"   ":                           nil,
		"name=github":                   {{"name", "=", "github"}},
		`name = "git hub"`:              {{"name", "=", "git hub"}},
		`name = "a\"b\\c"`:              {{"name", "=", `a"b\c`}},
		"name = \"AND\" AND bound=true": {{"name", "=", "AND"}, {"bound", "=", "true"}},
		"state = active\n AND\tstate!=MCP_SERVER_STATE_ACTIVE": {
			{"state", "=", "active"}, {"state", "!=", "active"},
		},
		"labels.team/a-b.c = x":   {{"labels.team/a-b.c", "=", "x"}},
		`labels."team/a" = "x y"`: {{"labels.team/a", "=", "x y"}},
		`name:hub AND labels.x:*`: {{"name", ":", "hub"}, {"labels.x", ":", "*"}},
		`name = ""`:               {{"name", "=", ""}},
	} {
		got, err := parseFilter(filter, someFields)
		if err != nil {
			t.Errorf("%q: %v", filter, err)
		}
		var parts [][3]string
		for _, c := range got {
			parts = append(parts, [3]string{c.Field, string(c.Op), c.Value})
		}
		if diff := cmp.Diff(want, parts); diff != "" {
			t.Errorf("%q: %s", filter, diff)
		}
	}
}

func TestFiltersThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, filter := range []string{
		"nope = 1", "name", "name =", "name > 3", "state:active", "bound:true", "= x", "name = a name = b", "name=a OR name=b", "NOT name=a",
		"(name=a)", "name=(a)", `name="a`, `name="a"b`, "name=a AND", "name=a ANDname=b", "bound=yes", "bound=1", "state=gone",
		"labels=x", "labels.=x", "labels. x=y", `name != 'it''`, "name='a", "name==a AND", "Name=a", "name=a,b", "name=a\x00",
		strings.Repeat("name=a AND ", 20) + "name=a",
	} {
		got, err := parseFilter(filter, someFields)
		if registry.ReasonOf(err) != registry.ReasonInvalidFilter {
			t.Errorf("%q is read as %+v, %v", filter, got, err)
		}
		if e, ok := registry.AsError(err); ok && (len(e.Fields) != 1 || e.Fields[0].Path != "filter") {
			t.Errorf("%q blames %+v", filter, e.Fields)
		}
	}
}

func TestOrders(t *testing.T) {
	t.Parallel()
	for order, want := range map[string]db.Order{
		"": {Field: "name"}, "name": {Field: "name"}, "create_time desc": {Field: "create_time", Desc: true},
		" create_time   asc ": {Field: "create_time"}, "nope": {}, "name down": {}, "name, create_time": {}, "desc": {}, "name desc name": {},
	} {
		got, err := parseOrder(order, "name", "create_time")
		if got != want || (err == nil) != (want.Field != "") {
			t.Errorf("%q is %+v, %v", order, got, err)
		}
		if err != nil && registry.ReasonOf(err) != registry.ReasonInvalidOrder {
			t.Errorf("%q is refused with %v", order, err)
		}
	}
}

func FuzzFiltersNeverPanic(f *testing.F) {
	for _, seed := range []string{`name="a" AND labels.x=y`, `state!=active`, `'`, `labels."`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, filter string) {
		terms, err := parseFilter(filter, someFields)
		if err != nil && terms != nil {
			t.Error("a refused filter has terms")
		}
	})
}
