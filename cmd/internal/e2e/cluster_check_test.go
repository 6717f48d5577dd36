//go:build cluster

package e2e

import (
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// verdicts are the invariants of cases.md, each with what was looked at and what
// was wrong.
type verdicts struct {
	t     *testing.T
	lines []string
}

// check looks at one invariant: look gives how many things it looked at, and what
// is wrong.
func (v *verdicts) check(name string, look func(wrong func(format string, args ...any)) int) {
	v.t.Helper()
	var faults []string
	count := look(func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) })
	word := "holds"
	if len(faults) > 0 {
		word = fmt.Sprintf("VIOLATED %d times", len(faults))
		v.t.Errorf("%s:\n  %s", name, strings.Join(faults[:min(len(faults), 20)], "\n  "))
	}
	if count == 0 {
		word = "NOTHING TO LOOK AT"
		v.t.Errorf("%s: there was nothing to look at", name)
	}
	v.lines = append(v.lines, fmt.Sprintf("%-90s %7d  %s", name, count, word))
}

func (c *cluster) check(t *testing.T, calmed time.Time) {
	t.Helper()
	ctx := t.Context()
	v := &verdicts{t: t}
	e := dial(t, c.at, c.namespace)
	c.settle(t, v, calmed)
	c.checkWorkflows(t, v, e)
	l := readPostgres(t, c.database)

	v.check("I1 acknowledged registrations that are there, by their key and id", func(wrong func(string, ...any)) int {
		for key, a := range c.log.keys {
			if s := l.servers[a.id]; s == nil || s.name != a.name {
				wrong("%s: %s is not there", key, a.id)
			}
		}
		return len(c.log.keys)
	})
	v.check("I2 one row per live name", func(wrong func(string, ...any)) int {
		live := map[string]string{}
		for _, s := range l.servers {
			if other := live[s.tenant+"/"+s.name]; s.state != registry.StateRetired && other != "" {
				wrong("%s and %s are both %s", s.id, other, s.name)
			} else if s.state != registry.StateRetired {
				live[s.tenant+"/"+s.name] = s.id
			}
		}
		return len(l.servers)
	})
	v.check("I3 steps of states are legal; none active without an approval, none out of retired", func(wrong func(string, ...any)) (steps int) {
		for id := range l.servers {
			states := l.states(id)
			for n := 1; n < len(states); n++ {
				steps++
				if !registry.CanMove(states[n-1], states[n]) {
					wrong("%s went from %s to %s", id, states[n-1], states[n])
				}
			}
			if slices.Contains(states, registry.StateActive) && l.decided(id)[registry.VerbApprove] == 0 {
				wrong("%s was active, and nobody approved it", id)
			}
		}
		return steps
	})
	v.check("I4 bound tools that are available have the approved digests and target", func(wrong func(string, ...any)) (n int) {
		db := c.open(t)
		defer db.Close()
		query(t, db, `SELECT b.server_id, b.tool_name, NOT t.available OR t.contract_digest = b.schema_hash AND t.text_digest = b.text_digest
AND t.behaviour_digest = b.behaviour_digest AND s.target_digest = b.target_digest
FROM mcp_tool_bindings AS b JOIN tools AS t ON t.tenant_id = b.tenant_id AND t.server_id = b.server_id AND t.external_id = b.tool_name
JOIN mcp_servers AS s ON s.server_id = b.server_id WHERE b.bound`, func(scan func(...any) error) error {
			var server, tool string
			var fits bool
			err := scan(&server, &tool, &fits)
			if n++; !fits {
				wrong("%s of %s is bound to something else than it is", tool, server)
			}
			return err
		})
		return n
	})
	v.check("I5 operations are applied once, and versions have no gap", func(func(string, ...any)) int { l.checkAudit(t); return len(l.audit) })
	v.check("I5 acknowledged edits are all there, and retired servers stay so", func(wrong func(string, ...any)) (n int) {
		for id, acknowledged := range c.log.edits {
			n += acknowledged
			if did := l.did(id)["edit"]; did < acknowledged {
				wrong("%s: %d edits were acknowledged, %d are there", id, acknowledged, did)
			}
		}
		for id := range c.log.retired {
			n++
			if s := l.servers[id]; s == nil || s.state != registry.StateRetired {
				wrong("%s is not retired", id)
			}
		}
		return n
	})
	v.check("I6 events are numbered without a gap, and tell the states", func(func(string, ...any)) int { l.checkEvents(t); return len(l.events) })
	v.check("I7 every api says what the table says", func(wrong func(string, ...any)) (n int) {
		for _, p := range c.apis {
			for id, s := range l.servers {
				n++
				got, err := c.caller(p.node, first).get(ctx, id)
				if err != nil || strings.ToLower(strings.TrimPrefix(got.GetState().String(), "MCP_SERVER_STATE_")) != string(s.state) || got.GetVersion() < s.version {
					wrong("%s: %s is %s, version %d, and the table has %s, %d: %v", p.name, id, got.GetState(), got.GetVersion(), s.state, s.version, err)
				}
			}
		}
		return n
	})
	v.check("I8 no token is in a row or a log", func(wrong func(string, ...any)) (n int) {
		c.findNoSecret(t)
		for _, p := range c.parts {
			for _, run := range p.logs {
				if n++; mentions(run.log.String(), "canary") {
					wrong("the log of %s has a token", p.name)
				}
			}
		}
		return n
	})
	v.check("I9 the other tenant sees nothing of it", func(wrong func(string, ...any)) int {
		for _, p := range c.apis {
			list, err := c.caller(p.node, second).servers.ListMcpServers(ctx, &pb.ListMcpServersRequest{})
			if err != nil || len(list.GetServers()) > 0 {
				wrong("%s shows %d servers: %v", p.name, len(list.GetServers()), err)
			}
		}
		for id := range l.servers {
			if _, err := c.caller(c.apis[0].node, second).get(ctx, id); reasonOf(err) != registry.ReasonServerNotFound {
				wrong("%s: %v", id, err)
			}
		}
		return len(l.servers)
	})
	v.check("I12 the audit trail verifies", func(wrong func(string, ...any)) int {
		until(t, "everything is sealed", patience, func() error {
			p := launch(t, "countersign", []string{"COUNTERSIGN_SERVER=" + c.apis[0].node.url(), "COUNTERSIGN_TOKEN=" + c.tokens[first]}, "audit", "verify")
			if code := p.await(t); code != 0 {
				return fmt.Errorf("exit code %d: %s%s", code, tail(p.out.String()), tail(p.log.String()))
			}
			return nil
		})
		return len(l.audit)
	})
	v.check("I13 a repeated key gets the same server again, marked", func(wrong func(string, ...any)) (n int) {
		for key, a := range c.log.keys {
			if n++; n > 200 {
				break
			}
			ctx, replayed := keyed(ctx, key)
			got, err := c.anyone().servers.RegisterMcpServer(ctx, registration(a.name, a.url))
			if err != nil || got.GetServer().GetServerId() != a.id || !replayed() {
				wrong("%s: %s, marked %t, not %s: %v", key, got.GetServer().GetServerId(), replayed(), a.id, err)
			}
		}
		return n
	})
	v.check("races: no answer is internal, none is one that nobody should get", func(wrong func(string, ...any)) (n int) {
		for _, text := range append(c.log.internal, c.log.strange...) {
			wrong("%s", text)
		}
		for _, times := range c.log.races {
			n += times
		}
		return n
	})
	v.check("I10 every process ends well when it is told to, with nothing left", func(wrong func(string, ...any)) int {
		for _, p := range slices.Backward(c.parts) {
			p.node.stop(t)
		}
		if left := c.left(t); left != "" {
			wrong("%s", left)
		}
		return len(c.parts)
	})
	c.print(v)
}

// settle waits until nothing is under way any more (I14, I7).
func (c *cluster) settle(t *testing.T, v *verdicts, calmed time.Time) {
	t.Helper()
	v.check("I14 all has settled within 10 minutes of the last fault; I7 tables and workflows fit", func(wrong func(string, ...any)) (n int) {
		last := ""
		for time.Since(calmed) < 10*time.Minute {
			p := launch(t, "countersign", c.env, "reconcile", "--deep", "--settle=1s", "-o", "json")
			if code := p.await(t); code == 0 {
				fmt.Printf("settled %s after the last fault, and after all callers\n", time.Since(calmed).Round(time.Second))
				return 1
			}
			last = tail(p.out.String()) + tail(p.log.String())
			time.Sleep(2 * time.Second)
		}
		wrong("it does not settle: %s", last)
		return 1
	})
}

// checkWorkflows looks at everything that Temporal has.
func (c *cluster) checkWorkflows(t *testing.T, v *verdicts, e engine) {
	t.Helper()
	db := c.open(t)
	defer db.Close()
	v.check("I2 one open workflow for each live server, none for a retired one; one schedule", func(wrong func(string, ...any)) int {
		live := map[string]bool{}
		query(t, db, "SELECT tenant_id, name FROM mcp_servers WHERE state <> 'retired'", func(scan func(...any) error) error {
			var tenant, name string
			err := scan(&tenant, &name)
			live["server/"+tenant+"/"+name] = true
			return err
		})
		e.awaitOpen(t, slices.Collect(maps.Keys(live))...)
		e.checkSchedules(t)
		return len(live)
	})
	v.check("I11 no workflow met code that does not fit its history, none failed", func(func(string, ...any)) int {
		e.checkHistories(t)
		return len(e.runs(t, "WorkflowType IN ('Server', 'Discovery', 'Connection', 'ConnectionTest', 'ProbeSweep')"))
	})
	v.check("I11 no workflow is stuck", func(wrong func(string, ...any)) int {
		var stuck []run
		until(t, "discoveries and tests have ended", longPatience, func() error {
			if stuck = e.runs(t, "WorkflowType IN ('Discovery', 'ConnectionTest') AND ExecutionStatus = 'Running'"); len(stuck) > 0 {
				return fmt.Errorf("open are %v", stuck)
			}
			return nil
		})
		closed := len(e.runs(t, "WorkflowType = 'Discovery' AND ExecutionStatus = 'Completed'"))
		for _, status := range []enumspb.WorkflowExecutionStatus{enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT} {
			for _, r := range e.runs(t, "WorkflowType IN ('Server', 'Discovery') AND ExecutionStatus = '"+status.String()+"'") {
				wrong("%s ended as %s", r.workflow, status)
			}
		}
		return closed
	})
	v.check("windows: each server is recorded once in each", func(wrong func(string, ...any)) (n int) {
		query(t, db, "SELECT count(*), count(DISTINCT (server_id, probe_window)) FROM probes", func(scan func(...any) error) error {
			var rows, windows int
			err := scan(&rows, &windows)
			if n = rows; rows != windows {
				wrong("%d rows of %d windows", rows, windows)
			}
			return err
		})
		return n
	})
}

func (c *cluster) open(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", c.database)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// left says which connections the ended processes left.
func (c *cluster) left(t *testing.T) (left string) {
	t.Helper()
	db := c.open(t)
	defer db.Close()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		left = ""
		query(t, db, "SELECT datname, count(*) FROM pg_stat_activity WHERE datname LIKE current_database() || '%' AND pid <> pg_backend_pid() GROUP BY 1",
			func(scan func(...any) error) error {
				var name string
				var n int
				err := scan(&name, &n)
				left += fmt.Sprintf("%d connections to %s; ", n, name)
				return err
			})
		if left == "" || time.Now().After(end) {
			return left
		}
	}
}

func (c *cluster) print(v *verdicts) {
	fmt.Println("\ndisturbances:")
	for _, what := range slices.Sorted(maps.Keys(c.faults)) {
		fmt.Printf("  %-40s %6d\n", what, c.faults[what])
	}
	for _, p := range c.parts {
		if p.ended > 0 {
			fmt.Printf("  %-40s %6d\n", p.name+" ended while it started", p.ended)
		}
	}
	fmt.Println("\nwhat callers were told who met others:")
	for _, what := range slices.Sorted(maps.Keys(c.log.races)) {
		fmt.Printf("  %-58s %6d\n", what, c.log.races[what])
	}
	fmt.Println("\ninvariants:")
	for _, line := range v.lines {
		fmt.Println("  " + line)
	}
}
