package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"countersign/registry"
	"countersign/workflows"
)

func init() { //nolint:gochecknoinits // a suite is known by its file
	suites = append(suites, suite{"registration", "from the registration of a server until it is verified", measureRegistration})
}

func measureRegistration(ctx context.Context, o options) ([]table, error) {
	n := 40
	if o.full {
		n = 400
	}
	if o.servers > 0 {
		n = o.servers
	}
	t := table{
		title: "Registration until verified",
		columns: []string{
			"database", "rate", "p50", "p99", "CPU of worker and Temporal", "CPU of the database", "history events", "of them only for the child workflow",
		},
		notes: []string{fmt.Sprintf("Medians of %d rounds of %d servers of 10 tools each, 8 at a time. Temporal has its data in memory. The last column counts what tells that the "+
			"child workflow starts and ends, in both histories, and the parent's workflow task about its end: what a Server that discovered by itself would not have.", o.rounds, n)},
	}
	for _, engine := range o.engines() {
		row, err := registrationsOn(ctx, o, engine, n)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", engine, err)
		}
		t.rows = append(t.rows, row)
	}
	return []table{t}, nil
}

func registrationsOn(ctx context.Context, o options, engine string, n int) ([]string, error) {
	s, err := newStage(ctx, o, engine)
	if err != nil {
		return nil, err
	}
	defer s.close(ctx)
	w := workflows.NewClient(s.temporal, "default", "")
	if _, err := s.register(ctx, w, 8); err != nil { // memories are filled
		return nil, err
	}
	var rate []float64
	var p50, p99, cpu, database []time.Duration
	var last string
	for range o.rounds {
		before, err := s.cost()
		if err != nil {
			return nil, err
		}
		began := time.Now()
		r, err := s.register(ctx, w, n)
		if err != nil {
			return nil, err
		}
		took := time.Since(began)
		after, err := s.cost()
		if err != nil {
			return nil, err
		}
		used := after.minus(before)
		rate, p50, p99 = append(rate, float64(n)/took.Seconds()), append(p50, percentile(r.took, 50)), append(p99, percentile(r.took, 99))
		cpu, database = append(cpu, perCall(used.worker+used.engine, n)), append(database, perCall(used.database, n))
		last = r.last
	}
	name := "of the worker"
	if engine == postgres {
		name = millis(median(database))
	}
	all, child, err := s.life(ctx, last)
	return []string{
		engine, fmt.Sprintf("%.1f a second", median(rate)), millis(median(p50)), millis(median(p99)), millis(median(cpu)), name,
		fmt.Sprint(all), fmt.Sprint(child),
	}, err
}

type registrations struct {
	took []time.Duration // sorted
	last string          // "NAME ID" of the first of them
}

// register registers servers and waits until each is verified, eight at a time.
func (s *stage) register(ctx context.Context, w workflows.Client, n int) (registrations, error) {
	var (
		wait   sync.WaitGroup
		mu     sync.Mutex
		out    registrations
		faults []error
	)
	round := uuid.NewString()[:8]
	for lane := range 8 {
		wait.Go(func() {
			for i := lane; i < n; i += 8 {
				began := time.Now()
				name := fmt.Sprintf("r%s-%05d", round, i)
				id, err := s.verified(ctx, w, name)
				mu.Lock()
				if err != nil {
					faults = append(faults, err)
				}
				out.took = append(out.took, time.Since(began))
				if i == 0 { // by the end of the round its workflow has heard of its discovery
					out.last = name + " " + id
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	slices.Sort(out.took)
	return out, errors.Join(faults[:min(3, len(faults))]...)
}

func (s *stage) verified(ctx context.Context, w workflows.Client, name string) (string, error) {
	key, err := uuid.NewV7()
	if err != nil {
		return "", err
	}
	r, err := w.Register(ctx, workflows.RegisterInput{
		Registration: registry.Registration{
			TenantID: tenant, ServerID: registry.ServerID(key.String()), Name: name, Direction: registry.DirectionConsumed,
			Transport: registry.TransportStreamableHTTP, URL: peerURL(s.peers.Ready, 10, name), Authentication: registry.AuthWorkloadIdentity,
			GovernancePolicyRef: registry.PolicyDefault, ProtocolVersion: "2026-07-28",
		},
		Operation: registry.Operation{
			ID: key.String(), Name: "register", Origin: registry.OriginAPI,
			Actor: registry.Actor{Subject: "bench", Roles: []registry.Role{registry.RolePlatformAdmin}},
		},
		Key: key.String(), BodyHash: "h-" + key.String(),
	})
	if err != nil {
		return "", err
	}
	id := r.Server.ServerID
	for {
		err := s.temporal.GetWorkflow(ctx, workflows.DiscoveryWorkflowID(tenant, id, 1), "").Get(ctx, nil)
		if _, none := errors.AsType[*serviceerror.NotFound](err); !none {
			return id, err
		}
		time.Sleep(2 * time.Millisecond) // it is about to begin
	}
}

// life counts the events of both histories of a server's registration.
func (s *stage) life(ctx context.Context, last string) (all, child int, err error) {
	var name, id string
	if _, err := fmt.Sscan(last, &name, &id); err != nil {
		return 0, 0, err
	}
	for n, workflow := range []string{workflows.ServerWorkflowID(tenant, name), workflows.DiscoveryWorkflowID(tenant, id, 1)} {
		for list := s.temporal.GetWorkflowHistory(ctx, workflow, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); list.HasNext(); all++ {
			e, err := list.Next()
			if err != nil {
				return 0, 0, err
			}
			switch e.GetEventType() { //nolint:exhaustive // those that are about the child
			case enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED, enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED:
				child++
			case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED:
				child += 4 // and the workflow task about it
			case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
				child += n
			}
		}
	}
	return all, child, nil
}
