package db_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign/registry"
)

// What a dry run says is what the deletion would say, and it leaves neither a row
// nor an event nor the audit of a refusal.
func TestADryRunSaysWhatTheDeletionWouldAndLeavesNothing(t *testing.T) {
	engines(t, func(t on) {
		ctx, w := t.Context(), newWorld(t, t.db, "acme")
		w.connect("used")
		w.uses("one", "used")
		w.connect("free")
		w.extend("tools")
		w.subscribe(subscription("hook"))
		w.register("told") // so that the subscription has something to deliver
		relay(t)
		tables := func() map[string]int {
			out := traces(t, t.db)
			for _, table := range []string{"connections", "providers", "event_subscriptions", "event_deliveries", "event_lanes"} {
				out[table] = count(t, t.db, "SELECT count(*) FROM "+table)
			}
			return out
		}
		before, try := tables(), w.DryRun()
		if before["event_deliveries"] == 0 {
			t.Fatal("there is nothing to deliver")
		}
		refused(t, try.DeleteConnection(ctx, "used", "", named("delete_connection")), registry.ReasonConnectionInUse)
		refused(t, try.DeleteConnection(ctx, "free", `"9"`, named("delete_connection")), registry.ReasonStaleEtag)
		refused(t, try.DeleteConnection(ctx, "none", "", named("delete_connection")), registry.ReasonConnectionNotFound)
		refused(t, try.DeleteProvider(ctx, "none", "", named("delete_provider")), registry.ReasonProviderNotFound)
		refused(t, try.DeleteSubscription(ctx, "hook", `"9"`, named("delete_subscription")), registry.ReasonStaleEtag)
		for name, err := range map[string]error{
			"connection":   try.DeleteConnection(ctx, "free", "", named("delete_connection")),
			"provider":     try.DeleteProvider(ctx, "tools", "", named("delete_provider")),
			"subscription": try.DeleteSubscription(ctx, "hook", "", named("delete_subscription")),
		} {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if diff := cmp.Diff(before, tables()); diff != "" {
			t.Errorf("it left %s", diff)
		}
		v, err := w.SubscriptionView(ctx, "hook")
		if err != nil || v.Pending != before["event_deliveries"] || v.Dead != 0 {
			t.Errorf("the subscription has %d pending and %d dead, %v", v.Pending, v.Dead, err)
		}
		// What was tried can be done.
		if err := w.DeleteConnection(ctx, "free", "", named("delete_connection")); err != nil {
			t.Error(err)
		}
	})
}
