package main

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestNumbers(t *testing.T) {
	t.Parallel()
	if got := median([]float64{9, 1, 5}); got != 5 {
		t.Errorf("the median is %v", got)
	}
	if got := median[int](nil); got != 0 {
		t.Errorf("the median of none is %v", got)
	}
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	if a, b := percentile(hundred, 50), percentile(hundred, 99); a != 50 || b != 99 {
		t.Errorf("p50 %d, p99 %d", a, b)
	}
	if perCall(time.Second, 0) != 0 || perCall(time.Second, 4) != 250*time.Millisecond {
		t.Error("division")
	}
}

func TestTablesAreMarkdown(t *testing.T) {
	t.Parallel()
	got := (&table{title: "Probes", columns: []string{"a", "b"}, rows: [][]string{{"1", "2"}}, notes: []string{"So it is."}}).markdown()
	if want := "### Probes\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nSo it is.\n"; got != want {
		t.Errorf("%q", got)
	}
	if facts := machine(); !strings.Contains(facts, "processors") || !strings.Contains(facts, "load") {
		t.Error(facts)
	}
}

// A fleet's names say what each server does, and the same share of each hundred.
func TestAFleetHasItsShareOfFaults(t *testing.T) {
	t.Parallel()
	f := fleet{Servers: 200, Dead: 10, Hang: 5}
	if got := f.healthy(); got != 170 {
		t.Errorf("%d of 200 are healthy", got)
	}
}

// What is filled in is callable: a measurement of denials would be worth nothing.
func TestWhatIsFilledInIsCallable(t *testing.T) {
	t.Parallel()
	at, drop, err := newDatabase(t.Context(), options{}, sqlite)
	if err != nil {
		t.Fatal(err)
	}
	defer drop()
	size := catalog{tenants: 2, servers: 2, tools: 3}
	if err := fill(t.Context(), at, size); err != nil {
		t.Fatal(err)
	}
	d, err := open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	b := burst{Tenants: size.names(), Servers: size.servers, Tools: size.tools}
	seen := map[string]bool{}
	for n := range 200 {
		id := b.toolID(n)
		found, err := d.Tenant(b.Tenants[n%2]).Resolve(t.Context(), []string{id})
		if err != nil || found[id] == nil || found[id].Denial != nil {
			t.Fatalf("%s: %+v %v", id, found[id], err)
		}
		seen[b.Tenants[n%2]+id] = true
	}
	if len(seen) != size.total() {
		t.Errorf("%d of %d tools are asked for", len(seen), size.total())
	}
}

func TestNobodyMeasuresWhatThereIsNot(t *testing.T) {
	t.Parallel()
	if err := measure(context.Background(), []string{"nothing"}, "", options{}); err == nil {
		t.Error("a measurement that there is not was run")
	}
}
