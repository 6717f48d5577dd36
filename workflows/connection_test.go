package workflows_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"

	"countersign/activities"
	"countersign/db"
	"countersign/registry"
	"countersign/worker"
	"countersign/workflows"
)

var eve = registry.Actor{Subject: "eve", Roles: []registry.Role{registry.RoleAssetMaintainer}}

// connects makes the first version of a connection.
func (h *house) connects(name string) registry.Connection {
	h.Helper()
	c := registry.Connection{Name: name, URL: "https://" + name + ".example/mcp", Headers: map[string]string{"Authorization": "env:BEARER"}}.Normal()
	made, _, err := h.db.Tenant("default").CreateConnection(context.Background(), c, registry.Operation{ID: "make-" + name, Name: "create_connection", Actor: admin}, nil)
	if err != nil {
		h.Fatal(err)
	}
	return made
}

// uses registers a server by a connection, without its workflow.
func (h *house) uses(name string, number int, connection string) registry.Server {
	h.Helper()
	in := registration()
	r := &in.Registration
	r.ServerID, r.Name, r.URL, r.ConnectionName = fmt.Sprintf("srv_0190b8a000007000800000000%07d", number), name, "", connection
	in.Operation.ID, in.Key = "op-"+name, "key-"+name
	out, err := h.acts.Register(context.Background(), in)
	if err != nil {
		h.Fatal(err)
	}
	return out.Server
}

// edits makes the next version of a connection, without its workflow.
func (h *house) edits(name string, e registry.ConnectionEdit) registry.Connection {
	h.Helper()
	out, err := h.acts.EditConnection(context.Background(), h.edit(name, e))
	if err != nil {
		h.Fatal(err)
	}
	return out.Connection
}

func (h *house) edit(name string, e registry.ConnectionEdit) activities.EditConnectionInput {
	op := registry.Operation{ID: rand.Text(), Name: "edit_connection", Actor: eve, Origin: registry.OriginAPI}
	return activities.EditConnectionInput{Tenant: "default", Name: name, Edit: e, Operation: op}
}

// telling runs the Connection workflow in skipped time, and hears whom it tells.
type telling struct {
	*house
	env  *testsuite.TestWorkflowEnvironment
	gone string // a server whose workflow is not open
	take bool   // those that are told take the newest version, as their workflows do

	mu   sync.Mutex // signals of one page come at once
	told []string   // NAME@VERSION
}

func (h *house) telling() *telling {
	var suite testsuite.WorkflowTestSuite
	t := &telling{house: h, env: suite.NewTestWorkflowEnvironment()}
	t.env.SetFailureConverter(workflows.FailureConverter())
	worker.RegisterWorkflows(t.env)
	t.env.RegisterActivity(h.acts)
	t.env.SetTestTimeout(time.Minute)
	t.env.OnSignalExternalWorkflow(mock.Anything, mock.Anything, "", workflows.SignalConnection, mock.Anything).Return(
		func(_, id, _, _ string, arg any) error {
			signal, ok := arg.(workflows.ConnectionSignal)
			name := strings.TrimPrefix(id, "server/default/")
			if !ok || signal.Name != "search" {
				t.Errorf("%s is told %+v", id, arg)
			}
			if name == t.gone {
				return errors.New("there is no such workflow")
			}
			t.mu.Lock()
			defer t.mu.Unlock()
			if t.take {
				if _, err := t.acts.TakeConnection(context.Background(), activities.TakeConnectionInput{Tenant: "default", ServerID: t.server(name).ServerID, Name: signal.Name}); err != nil {
					t.Errorf("%s takes it: %v", name, err)
				}
			}
			t.told = append(t.told, fmt.Sprintf("%s@%d", name, signal.Version))
			return nil
		})
	return t
}

// edit sends an edit and hands its outcome on.
func (t *telling) edit(e registry.ConnectionEdit, done func(activities.ConnectionOutput, error)) {
	in := t.house.edit("search", e)
	t.env.UpdateWorkflow(workflows.UpdateEditConnection, in.Operation.ID, &testsuite.TestUpdateCallback{
		OnAccept: func() {},
		OnReject: func(err error) { t.Error(err) },
		OnComplete: func(out any, err error) {
			got, _ := out.(activities.ConnectionOutput)
			done(got, workflowsError(err))
		},
	}, in)
}

// made wants an edit to have made a version.
func (t *telling) made(version int) func(activities.ConnectionOutput, error) {
	return func(out activities.ConnectionOutput, err error) {
		if err != nil || out.Connection.Version != version {
			t.Errorf("%s, %v; want version %d", out.Connection.Ref(), err, version)
		}
	}
}

func (t *telling) run() {
	t.Helper()
	t.env.ExecuteWorkflow(workflows.ConnectionWorkflow, workflows.ConnectionInput{Tenant: "default", Name: "search"})
	if !t.env.IsWorkflowCompleted() {
		t.Fatal("the workflow has not ended")
	}
	if err := t.env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(t.told)
}

func elsewhere() registry.ConnectionEdit {
	return registry.ConnectionEdit{URL: new("https://elsewhere.example/mcp")}
}

// Each live server that is not at the version hears of it once, page by page;
// others do not, and one whose workflow is gone keeps nobody else waiting.
func TestAnEditOfAConnectionIsToldToItsServers(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.connects("search")
	h.connects("other")
	var want []string
	for i := range 205 { // three pages
		name := fmt.Sprintf("s%03d", i)
		h.uses(name, i, "search")
		if i != 7 && i != 150 {
			want = append(want, name+"@2")
		}
	}
	h.uses("z-other", 300, "other")
	retired := h.server("s007")
	if _, err := h.acts.Retire(t.Context(), activities.RetireInput{Tenant: "default", ServerID: retired.ServerID, Operation: registry.Operation{ID: "end", Name: "retire", Actor: admin}}); err != nil {
		t.Fatal(err)
	}
	telling := h.telling()
	telling.gone = "s150"
	telling.env.RegisterDelayedCallback(func() { telling.edit(elsewhere(), telling.made(2)) }, 0)
	telling.run()
	if !slices.Equal(telling.told, want) {
		t.Errorf("told were %d: %v", len(telling.told), telling.told)
	}
}

// An edit that comes while servers are told of the one before is told to all of
// them as well, and none of it waits for a person.
func TestAnEditMeanwhileIsToldToo(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.connects("search")
	for i, name := range []string{"a", "b"} {
		h.uses(name, i, "search")
	}
	telling := h.telling()
	telling.env.RegisterDelayedCallback(func() {
		telling.edit(elsewhere(), telling.made(2))
		telling.edit(registry.ConnectionEdit{Headers: &map[string]string{"Authorization": "env:OTHER"}}, telling.made(3))
	}, 0)
	telling.run()
	for _, name := range []string{"a@3", "b@3"} {
		if !slices.Contains(telling.told, name) {
			t.Errorf("told were %v, and not %s", telling.told, name)
		}
	}
}

// An edit that falls between two pages of the servers reaches every server, also
// those that have just been told of the one before; each takes it once.
func TestAnEditBetweenTwoPagesReachesEveryServerOnce(t *testing.T) {
	t.Parallel()
	const servers, page = 205, 100
	h := newHouse(t)
	h.connects("search")
	for i := range servers {
		h.uses(fmt.Sprintf("s%03d", i), i, "search")
	}
	telling := h.telling()
	telling.take = true
	pages := 0
	telling.env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		if info.ActivityType.Name != "ConnectionUsers" {
			return
		}
		if pages++; pages == 2 { // the first page has been told
			telling.edit(registry.ConnectionEdit{Headers: &map[string]string{"Authorization": "env:OTHER"}}, telling.made(3))
		}
	})
	telling.env.RegisterDelayedCallback(func() { telling.edit(elsewhere(), telling.made(2)) }, 0)
	telling.run()
	told := map[string]int{}
	for _, one := range telling.told {
		told[one]++
	}
	for i := range servers {
		name := fmt.Sprintf("s%03d", i)
		s, of2, of3 := h.server(name), told[name+"@2"], told[name+"@3"]
		if of2 > 1 || of3 > 1 || of2+of3 == 0 || i < page && of2+of3 != 2 {
			t.Errorf("%s is told %d times of version 2 and %d times of version 3", name, of2, of3)
		}
		// Who hears of version 2 after the edit takes version 3 at once; of the second
		// page, the first ones may hear of it just before.
		if s.EndpointRef != "search@3" || s.Version != 3 && (i < page || s.Version != 2) {
			t.Errorf("%s is of %s, and itself at version %d", name, s.EndpointRef, s.Version)
		}
	}
}

// What changes nothing, or is refused, is told to nobody, and the workflow ends.
func TestAnEditOfNothingIsToldToNobody(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	first := h.connects("search")
	h.uses("a", 1, "search")
	telling := h.telling()
	telling.env.RegisterDelayedCallback(func() {
		telling.edit(registry.ConnectionEdit{URL: &first.URL}, telling.made(1))
		telling.edit(registry.ConnectionEdit{URL: new("https://new.example/mcp"), Etag: `"9"`}, func(_ activities.ConnectionOutput, err error) {
			if registry.ReasonOf(err) != registry.ReasonStaleEtag {
				t.Errorf("%v", err)
			}
		})
		telling.edit(registry.ConnectionEdit{SecretRef: new("hunter2"), AuthKind: new(registry.AuthKindClientCredentials)}, func(_ activities.ConnectionOutput, err error) {
			if registry.ReasonOf(err) != registry.ReasonSecretRefInvalid || strings.Contains(fmt.Sprint(err), "hunter2") {
				t.Errorf("%v", err)
			}
		})
	}, 0)
	telling.run()
	if len(telling.told) > 0 {
		t.Errorf("told were %v", telling.told)
	}
	if c, err := h.db.Tenant("default").Connection(t.Context(), "search", 0); err != nil || c.Version != 1 {
		t.Errorf("%+v, %v", c, err)
	}
}

// A test of a connection that shows anything, be it a client certificate alone, also
// asks the server without (R22); one that shows nothing has nothing to leave out.
func TestATestOfAConnectionAlsoAsksWithoutWhatItShows(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		connection registry.Connection
		claims     bool
	}{
		"nothing":       {registry.Connection{}, false},
		"a header":      {registry.Connection{Headers: map[string]string{"Authorization": "env:BEARER"}}, true},
		"a certificate": {registry.Connection{ClientCertificateRef: "file:us.pem", ClientKeyRef: "file:us.key"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			c := tt.connection
			c.Name, c.URL = "search", "https://search.example/mcp"
			op := registry.Operation{ID: "make", Name: "create_connection", Actor: admin}
			if _, _, err := h.db.Tenant("default").CreateConnection(t.Context(), c.Normal(), op, nil); err != nil {
				t.Fatal(err)
			}
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestActivityEnvironment()
			env.RegisterActivity(h.acts)
			if _, err := env.ExecuteActivity(h.acts.Test, activities.TestInput{Tenant: "default", Connection: "search"}); err != nil {
				t.Fatal(err)
			}
			if met := h.peer.met; met.URL != c.URL || (met.Authentication != "") != tt.claims {
				t.Errorf("%+v", met)
			}
		})
	}
}

// One that is started by hand, without an edit, ends by itself.
func TestAConnectionWithoutAnEditEnds(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.connects("search")
	h.telling().run()
}

// Design §4: what a server pins counts until it takes the new version, in a
// transaction that unbinds what was approved of another target; the discovery
// that follows is asked by who edited, and what it finds can be approved again.
func TestAServerTakesAnEditOfItsConnection(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.connects("search")
	p := h.play()
	changed := func(version int) {
		p.env.SignalWorkflow(workflows.SignalConnection, workflows.ConnectionSignal{Name: "search", Version: version})
	}
	pins := func(ref string, denied registry.Reason) {
		if s, got := p.server("demo"), p.denied("demo.a"); s.EndpointRef != ref || got != denied {
			t.Errorf("it is at %s, denied as %q; want %s, %q", s.EndpointRef, got, ref, denied)
		}
		p.is(registry.StateActive)
	}
	p.at(0, func() {
		in := registration()
		in.Registration.URL, in.Registration.ConnectionName = "", "search"
		p.update(workflows.UpdateRegister, "op-register", in, nil)
	})
	p.at(time.Minute, func() { p.approve("a", "b") })
	looks := 0
	p.at(2*time.Minute, func() {
		pins("search@1", "")
		looks = p.peer.seen()
		h.edits("search", registry.ConnectionEdit{Description: new("for people")})
		changed(2)
	})
	p.at(3*time.Minute, func() {
		pins("search@2", "")
		if n := p.peer.seen(); n != looks {
			t.Errorf("a description was looked at %d times", n-looks)
		}
		h.edits("search", elsewhere())
		pins("search@2", "") // nobody told it yet
		changed(3)
	})
	p.at(4*time.Minute, func() {
		pins("search@3", registry.ReasonSchemaChanged)
		if v := p.server("demo").Review; v.Status != registry.ReviewPending || v.RequestedBy != "eve" {
			t.Errorf("the review is %+v", v)
		}
		if n := p.peer.seen(); n != looks+1 {
			t.Errorf("another target was looked at %d times", n-looks)
		}
		p.approve("a")
	})
	p.at(5*time.Minute, func() {
		pins("search@3", "")
		// What comes late, again, of another connection or from a stranger changes nothing.
		changed(2)
		changed(3)
		changed(9)
		p.env.SignalWorkflow(workflows.SignalConnection, workflows.ConnectionSignal{Name: "none", Version: 9})
		p.env.SignalWorkflow(workflows.SignalConnection, "nonsense")
	})
	p.at(6*time.Minute, func() {
		pins("search@3", "")
		if n := p.peer.seen(); n != looks+1 {
			t.Errorf("it was looked at %d times more", n-looks-1)
		}
		p.retire()
	})
	p.run()
	taken := h.audit("take_connection")
	if len(taken) != 2 || !slices.ContainsFunc(taken, func(e db.AuditEntry) bool { return strings.Contains(e.Note, "search@3") && e.Actor == "eve" }) {
		t.Errorf("the audit has %+v", taken)
	}
}

// A discovery of the old target is no answer about the new one.
func TestADiscoveryOfTheOldTargetEnds(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.connects("search")
	hold := make(chan struct{}) // never over: what waits for it is cancelled
	p := h.play()
	p.at(0, func() {
		in := registration()
		in.Registration.URL, in.Registration.ConnectionName = "", "search"
		p.update(workflows.UpdateRegister, "op-register", in, nil)
	})
	p.at(time.Minute, func() {
		p.peer.mu.Lock()
		p.peer.hold = hold
		p.peer.mu.Unlock()
		op := p.op("discover")
		p.update(workflows.UpdateDiscover, op.ID, activities.BeginDiscoveryInput{Tenant: "default", ServerID: serverID, Operation: op}, nil)
	})
	p.at(time.Minute+time.Second, func() {
		h.edits("search", elsewhere())
		p.env.SignalWorkflow(workflows.SignalConnection, workflows.ConnectionSignal{Name: "search", Version: 2})
		p.peer.mu.Lock()
		p.peer.hold = nil
		p.peer.mu.Unlock()
	})
	p.at(3*time.Minute, func() {
		s := p.server("demo")
		if s.EndpointRef != "search@2" || s.Review.Status != registry.ReviewPending || s.Review.RequestedBy != "eve" || s.SnapshotDigest == "" {
			t.Errorf("it is at %s, with the review %+v of %q", s.EndpointRef, s.Review, s.SnapshotDigest)
		}
		p.retire()
	})
	p.run()
}
