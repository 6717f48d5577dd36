package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/proto/countersign/registry/v1/registryv1connect"
)

func init() { parts["load"] = load } //nolint:gochecknoinits // a part is known by its file

// wire is how questions go.
type wire struct {
	JSON bool `json:"json"`
	H2C  bool `json:"h2c"`
}

func (w wire) String() string {
	text := "proto, "
	if w.JSON {
		text = "JSON, "
	}
	if w.H2C {
		return text + "h2c"
	}
	return text + "HTTP/1.1"
}

// burst is a number of questions, some at a time.
type burst struct {
	URL     string   `json:"url"`
	Wire    wire     `json:"wire"`
	Ask     string   `json:"ask"`    // resolve, servers or tools
	Mode    string   `json:"mode"`   // of resolve: baseline, bounded or fully_consistent
	Prefix  string   `json:"prefix"` // of the names of servers; s when empty
	Tenants []string `json:"tenants"`
	Servers int      `json:"servers"` // of each tenant, of resolve
	Tools   int      `json:"tools"`   // of each server
	Calls   int      `json:"calls"`
	AtOnce  int      `json:"atOnce"`
	Search  string   `json:"search"` // of tools
	Rate    float64  `json:"rate"`   // calls a second; 0: as fast as they are answered
}

// went is how it went.
type went struct {
	Calls    int
	Took     time.Duration
	P50, P95 time.Duration
	P99      time.Duration
	Items    int // of the last answer
}

// load asks; it is a process of its own, so that its work is not counted.
func load([]string) error {
	return answerLines("ready", map[string]func(string) (any, error){"go": func(arg string) (any, error) {
		var b burst
		if err := json.Unmarshal([]byte(arg), &b); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		return b.run(ctx)
	}})
}

// client speaks as the wire says.
func (w wire) client() (*http.Client, []connect.ClientOption) {
	var protocols http.Protocols
	if w.H2C {
		protocols.SetUnencryptedHTTP2(true)
	} else {
		protocols.SetHTTP1(true)
	}
	var o []connect.ClientOption
	if w.JSON {
		o = append(o, connect.WithProtoJSON())
	}
	return &http.Client{Transport: &http.Transport{Protocols: &protocols, MaxIdleConnsPerHost: 64}}, o
}

type bearing struct{ next http.RoundTripper }

type tenantKey struct{}

// RoundTrip implements http.RoundTripper.
func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	tenant, _ := r.Context().Value(tenantKey{}).(string)
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token(tenant))
	return b.next.RoundTrip(r)
}

// asker asks the n-th question and says how long the answer is.
type asker func(ctx context.Context, n int) (int, error)

func (b *burst) asker() (asker, error) {
	c, o := b.Wire.client()
	c.Transport = bearing{c.Transport}
	switch b.Ask {
	case "resolve":
		client := registryv1connect.NewMcpRegistryServiceClient(c, b.URL, o...)
		return func(ctx context.Context, n int) (int, error) { return b.resolve(ctx, client, n) }, nil
	case "servers":
		client := registryv1connect.NewMcpServerServiceClient(c, b.URL, o...)
		return func(ctx context.Context, n int) (int, error) {
			r, err := client.ListMcpServers(b.as(ctx, n), &pb.ListMcpServersRequest{PageSize: 100})
			return len(r.GetServers()), err
		}, nil
	case "tools":
		client := registryv1connect.NewToolCatalogServiceClient(c, b.URL, o...)
		return func(ctx context.Context, n int) (int, error) {
			r, err := client.ListTools(b.as(ctx, n), &pb.ListToolsRequest{PageSize: 100, Search: b.Search})
			return len(r.GetTools()), err
		}, nil
	}
	if b.Ask == "rows" {
		return func(ctx context.Context, n int) (int, error) {
			r, err := http.NewRequestWithContext(b.as(ctx, n), http.MethodGet, b.URL, http.NoBody)
			if err != nil {
				return 0, err
			}
			answer, err := c.Do(r)
			if err != nil {
				return 0, err
			}
			defer answer.Body.Close()
			length, err := io.Copy(io.Discard, answer.Body)
			return int(length), err
		}, nil
	}
	return nil, fmt.Errorf("nobody can ask for %q", b.Ask)
}

func (b *burst) as(ctx context.Context, n int) context.Context {
	return context.WithValue(ctx, tenantKey{}, b.Tenants[n%len(b.Tenants)])
}

// toolID is the n-th tool, walking through all of them in large steps.
func (b *burst) toolID(n int) string {
	n = n / len(b.Tenants) * 7919
	return fmt.Sprintf("%s%06d.tool_%05d", cmp.Or(b.Prefix, "s"), n/b.Tools%b.Servers, n%b.Tools)
}

func serverName(n int) string { return fmt.Sprintf("s%06d", n) }

func (b *burst) resolve(ctx context.Context, client registryv1connect.McpRegistryServiceClient, n int) (int, error) {
	ask := &pb.ResolveToolRequest{ToolId: b.toolID(n)}
	switch b.Mode {
	case baseline:
		ask.Agent = baseline
	case "bounded":
		ask.Consistency, ask.MaxAge = pb.Consistency_CONSISTENCY_BOUNDED, durationpb.New(10*time.Second)
	}
	r, err := client.ResolveTool(b.as(ctx, n), ask)
	if err == nil && !r.GetCallable() {
		err = fmt.Errorf("%s is denied: %s", ask.GetToolId(), r.GetReason())
	}
	return 1, err
}

func (b *burst) run(ctx context.Context) (went, error) {
	ask, err := b.asker()
	if err != nil {
		return went{}, err
	}
	var (
		wait   sync.WaitGroup
		mu     sync.Mutex
		all    []time.Duration
		faults []error
		items  int
	)
	begin := time.Now()
	for w := range b.AtOnce {
		wait.Go(func() {
			took := make([]time.Duration, 0, b.Calls/b.AtOnce+1)
			last := 0
			for n := w; n < b.Calls; n += b.AtOnce {
				if b.Rate > 0 {
					time.Sleep(time.Until(begin.Add(time.Duration(float64(n) / b.Rate * float64(time.Second)))))
				}
				start := time.Now()
				got, err := ask(ctx, n)
				if err != nil {
					mu.Lock()
					faults = append(faults, err)
					mu.Unlock()
					return
				}
				took, last = append(took, time.Since(start)), got
			}
			mu.Lock()
			defer mu.Unlock()
			all, items = append(all, took...), last
		})
	}
	wait.Wait()
	if len(faults) > 0 {
		return went{}, errors.Join(faults[:min(len(faults), 3)]...)
	}
	slices.Sort(all)
	return went{Calls: len(all), Took: time.Since(begin), P50: percentile(all, 50), P95: percentile(all, 95), P99: percentile(all, 99), Items: items}, nil
}

// fire has a burst run by a load process.
func (p *part) fire(b burst) (w went, err error) {
	raw, err := json.Marshal(b)
	if err != nil {
		return w, err
	}
	return w, p.ask(&w, "go "+string(raw))
}
