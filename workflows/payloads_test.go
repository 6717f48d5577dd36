package workflows_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/activities"
	"countersign/registry"
	"countersign/workflows"
)

var update = flag.Bool("update", false, "write the golden payloads")

// Payloads stand in running workflows: a field may come, none may go or change
// its name. The golden files show every field with a value.
func TestPayloadsKeepTheirForm(t *testing.T) {
	t.Parallel()
	for _, payload := range []any{
		workflows.ServerInput{},
		workflows.SweepInput{},
		workflows.PolicyChangeInput{},
		workflows.PolicySignal{},
		workflows.ConnectionInput{},
		workflows.ConnectionSignal{},
		activities.EditConnectionInput{},
		activities.ConnectionOutput{},
		activities.ConnectionUsersInput{},
		activities.ConnectionUsersOutput{},
		activities.TakeConnectionInput{},
		activities.TakeConnectionOutput{},
		activities.ReevaluateInput{},
		activities.PolicyUsersInput{},
		activities.PolicyUsersOutput{},
		activities.RegisterInput{},
		activities.RegisterOutput{},
		activities.DecideInput{},
		activities.ServerOutput{},
		activities.EditInput{},
		activities.SetEnabledInput{},
		activities.RequireApprovalInput{},
		activities.PruneInput{},
		activities.PruneOutput{},
		activities.RetireInput{},
		activities.BeginDiscoveryInput{},
		activities.BeginDiscoveryOutput{},
		activities.DiscoverInput{},
		activities.FailDiscoveryInput{},
		activities.ApplyProbeInput{},
		activities.ExpireInput{},
		activities.RefuseInput{},
		activities.TestInput{},
		activities.TestReport{},
		workflows.ProviderRefreshInput{},
		activities.SaveProviderInput{},
		activities.ProviderOutput{},
		activities.BeginRefreshInput{},
		activities.PlanRefreshInput{},
		activities.PlanRefreshOutput{},
		activities.BringServerInput{},
		registry.ServerOutcome{},
		activities.EndRefreshInput{},
		activities.TestProviderInput{},
		activities.ProviderTestReport{},
		activities.ProbeBatchInput{},
		activities.ProbeBatchOutput{},
		workflows.ShardInput{},
		workflows.ShardOutput{},
		activities.PlanSweepInput{},
		activities.PlanSweepOutput{},
		activities.ProbeQuickInput{},
		activities.ProbeQuickOutput{},
		activities.ProbeRestInput{},
		registry.Probe{},
		registry.Error{},
	} {
		name := reflect.TypeOf(payload).Name()
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			full := reflect.New(reflect.TypeOf(payload))
			fill(full.Elem())
			got, err := json.MarshalIndent(full.Interface(), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", "payloads", name+".json")
			if *update {
				if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimSpace(string(want)), string(got)); diff != "" {
				t.Errorf("the form changed; if nothing was removed or renamed, run with -update\n%s", diff)
			}
		})
	}
}

// fill gives every field a value that is not its zero.
func fill(v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)))
		return
	}
	switch v.Kind() { //nolint:exhaustive // what payloads are made of
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Type().Field(i).Type.Kind() != reflect.Interface {
				fill(v.Field(i))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.ValueOf(any("value"))
		if v.Type().Elem().Kind() == reflect.Int {
			value = reflect.ValueOf(7)
		}
		v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), value.Convert(v.Type().Elem()))
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8:
		v.SetUint(7)
	}
}
