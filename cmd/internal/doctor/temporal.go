package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"countersign/cmd/internal/app"
	"countersign/worker"
)

func (x *examination) temporal(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*patience)
	defer cancel()
	unseen := []string{"namespace", "search attributes", "schedule", "workers", "Temporal clock"}
	codec, err := app.Codec(ctx, x.conf)
	if err != nil {
		x.failed("workflow data", "see that the references in temporal.codec_keys lead to keys", err)
		x.unseen("the keys of workflow data", append([]string{"Temporal"}, unseen...)...)
		return
	}
	if len(x.conf.Temporal.CodecKeys) == 0 {
		x.warnf("workflow data", "set temporal.codec_keys; see docs/operate.md", "it is not encrypted: whoever reads Temporal's database reads names, URLs and comments")
	}
	address := worker.Address{HostPort: x.conf.Temporal.Address, Namespace: x.conf.Temporal.Namespace, Codec: codec}
	c, namespace, err := worker.Dial(address, app.Quiet(x.log))
	if err != nil {
		x.failed("Temporal", "set temporal.address, or TEMPORAL_ADDRESS and the other variables of Temporal's own", err)
		x.unseen("Temporal", unseen...)
		return
	}
	defer c.Close()
	info, err := within(ctx, func(ctx context.Context) (*workflowservice.GetSystemInfoResponse, error) {
		return c.WorkflowService().GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
	})
	if err != nil {
		x.failf("Temporal", "set temporal.address, or TEMPORAL_ADDRESS and the other variables of Temporal's own, to where Temporal runs", "it cannot be asked: %s", why(err))
		x.unseen("Temporal", unseen...)
		return
	}
	x.okf("Temporal", "version %s", info.GetServerVersion())
	if !x.namespace(ctx, c, namespace) {
		x.unseen("the namespace", unseen[1:]...)
		return
	}
	x.attributes(ctx, c, namespace)
	x.schedule(ctx, c)
	if codec != nil {
		if err := worker.Readable(ctx, c, codec); err != nil {
			x.failed("workflow data", "give this process every key that others encrypt with", err)
		} else {
			x.okf("workflow data", "it is encrypted with the key %s, and what workers wrote can be read", x.conf.Temporal.CodecKeys[0].ID)
		}
	}
	x.workers(ctx, c, namespace)
	host, _ := os.Hostname() // only a name
	ahead, err := worker.ClockAhead(ctx, c, namespace, fmt.Sprintf("doctor-%d@%s", os.Getpid(), host))
	if err != nil {
		x.warnf("Temporal clock", "", "it could not be read: %s", why(err))
		return
	}
	x.clock("Temporal clock", "Temporal", ahead)
}

func (x *examination) namespace(ctx context.Context, c client.Client, namespace string) bool {
	d, err := within(ctx, func(ctx context.Context) (*workflowservice.DescribeNamespaceResponse, error) {
		return c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	})
	if _, absent := errors.AsType[*serviceerror.NamespaceNotFound](err); absent {
		x.failf("namespace", "run `countersign migrate temporal`, or set temporal.namespace", "there is no namespace %s", namespace)
		return false
	}
	if err != nil {
		x.failf("namespace", "see that this process may use the namespace", "%s cannot be asked for: %s", namespace, why(err))
		return false
	}
	kept := d.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration()
	if kept < 24*time.Hour {
		x.warnf("namespace", "temporal operator namespace update --retention 7d "+namespace,
			"%s keeps closed workflows for %s only: what they did cannot be looked up for long", namespace, kept)
		return true
	}
	x.okf("namespace", "%s, which keeps closed workflows for %s", namespace, kept)
	return true
}

func (x *examination) attributes(ctx context.Context, c client.Client, namespace string) {
	type faults struct{ missing, other []string }
	f, err := within(ctx, func(ctx context.Context) (f faults, err error) {
		f.missing, f.other, err = worker.SearchAttributeFaults(ctx, c, namespace)
		return f, err
	})
	const fix = "run `countersign migrate temporal`"
	switch {
	case err != nil:
		x.warnf("search attributes", "look with: temporal operator search-attribute list", "they cannot be asked for: %s", why(err))
	case len(f.other) > 0:
		x.failf("search attributes", "use a namespace of its own for Countersign", "%s exists with another type", strings.Join(f.other, ", "))
	case len(f.missing) > 0:
		x.failf("search attributes", fix, "the namespace lacks %s: no workflow can start", strings.Join(f.missing, ", "))
	default:
		x.okf("search attributes", "all are there")
	}
}

func (x *examination) schedule(ctx context.Context, c client.Client) {
	facts, err := within(ctx, func(ctx context.Context) (*worker.ScheduleFacts, error) { return worker.DescribeSchedule(ctx, c) })
	every := x.conf.Probe.Interval
	switch {
	case err != nil:
		x.failf("schedule", "see that this process may read schedules", "it cannot be asked for: %s", why(err))
		return
	case facts == nil:
		x.failf("schedule", "start a worker, which makes it, or run `countersign reconcile --fix`", "there is no probe schedule: no server is probed")
		return
	case facts.Paused:
		x.failf("schedule", "temporal schedule toggle --unpause --schedule-id handshake-probe", "it is paused (%s): no server is probed", facts.Note)
	case facts.Interval != every:
		x.warnf("schedule", "set probe.interval to the same in all workers, then restart one", "it probes every %s, and this configuration says %s", facts.Interval, every)
	case !facts.Last.IsZero() && time.Since(facts.Last) > 3*facts.Interval && !facts.Running:
		x.failf("schedule", "look at Temporal's own workers and at the schedule in its UI", "the last sweep began %s ago, and one should every %s",
			time.Since(facts.Last).Round(time.Second), facts.Interval)
	default:
		x.okf("schedule", "a sweep every %s", facts.Interval)
	}
	strays, err := within(ctx, func(ctx context.Context) ([]string, error) { return worker.StraySchedules(ctx, c) })
	if err == nil && len(strays) > 0 {
		x.failf("schedule", "run `countersign reconcile --fix`", "others start sweeps, too: %s", strings.Join(strays, ", "))
	}
}

func (x *examination) workers(ctx context.Context, c client.Client, namespace string) {
	list, err := within(ctx, func(ctx context.Context) ([]worker.Poller, error) { return worker.Pollers(ctx, c, namespace) })
	if err != nil {
		x.warnf("workers", "", "they cannot be asked for: %s", why(err))
		return
	}
	builds := map[string]bool{}
	for _, p := range list {
		builds[p.Build] = true
	}
	switch {
	case len(list) == 0:
		x.warnf("workers", "start a worker: countersign serve --role=worker", "none asks for tasks: changes wait, and no server is probed")
	case builds[""] && len(builds) > 1:
		x.warnf("workers", "set worker.deployment and worker.build in all of them, or in none", "some run with versions, and some without")
	default:
		x.okf("workers", "%d ask for tasks", len(list))
	}
}

// within bounds one question.
func within[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, patience/2)
	defer cancel()
	return ask(ctx)
}

// why says an error of Temporal in few words.
func why(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "it does not answer"
	}
	if _, slow := errors.AsType[*serviceerror.DeadlineExceeded](err); slow {
		return "it does not answer"
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}
