//go:build cluster

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"countersign/mcptest"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// What callers may be told who meet others at one server.
var (
	whoMeets = []registry.Reason{
		registry.ReasonSuperseded, registry.ReasonStaleEtag, registry.ReasonConflictingWrite, registry.ReasonBusy, registry.ReasonUnknownTool,
		registry.ReasonNothingDiscovered, registry.ReasonServerNotActive, registry.ReasonToolUnbound, registry.ReasonAlreadyDecided, registry.ReasonNothingToReview, registry.ReasonServerRetired,
		registry.ReasonServerNotFound, registry.ReasonServerClosing, registry.ReasonIllegalTransition, registry.ReasonDependency, registry.ReasonDeadline,
	}
	whoRegisters = append([]registry.Reason{registry.ReasonServerExists}, whoMeets...)
)

// live brings one server after the other through its life, until it is over.
func (c *cluster) live(ctx context.Context, n int, over <-chan struct{}) {
	for k := 0; ; k++ {
		select {
		case <-over:
			return
		default:
		}
		name := fmt.Sprintf("server-%d-%d", n, k)
		if err := c.life(ctx, name, c.peers[(n+k)%len(c.peers)]); err != nil {
			c.log.do(func() { c.log.strange = append(c.log.strange, name+": "+err.Error()) })
			return
		}
	}
}

func (c *cluster) life(ctx context.Context, name string, peer *peer) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	id, err := c.registers(ctx, name, peer.url())
	if err != nil {
		return fmt.Errorf("register: %w", err)
	}
	if err := eventually(ctx, func() error { _, err := c.anyone().in(ctx, id, verified); return err }); err != nil {
		return fmt.Errorf("verified: %w", err)
	}
	if rand.IntN(2) == 0 {
		c.race("approve // approve", func() error { return c.approves(ctx, id) }, func() error { return c.approves(ctx, id) })
	}
	if err := eventually(ctx, func() error { return c.anyone().activateOnce(ctx, id) }); err != nil {
		return fmt.Errorf("active: %w", err)
	}
	if err := eventually(ctx, func() error { return c.anyone().callable(ctx, name+".tool_0000") }); err != nil {
		return fmt.Errorf("callable: %w", err)
	}
	for range 1 + rand.IntN(4) {
		switch rand.IntN(6) {
		case 0:
			c.race("edit // edit", func() error { return c.edits(ctx, id) }, func() error { return c.edits(ctx, id) })
		case 1:
			c.race("discover // discover", func() error { return c.discovers(ctx, id) }, func() error { return c.discovers(ctx, id) })
		case 2:
			c.race("switch // switch", func() error { return c.switches(ctx, name, false) }, func() error { return c.switches(ctx, name, true) })
		case 3:
			other := c.peers[rand.IntN(len(c.peers))].url()
			c.race("move // probe", func() error {
				_, err := c.anyone().servers.UpdateMcpServer(ctx, patchURL(id, other))
				return err
			}, func() error { return c.discovers(ctx, id) })
		case 4:
			peer.server.Edit(func(s *mcptest.Script) { s.List("tools/list", mcptest.Items(mcptest.Tools(3+rand.IntN(4))...)) })
			c.race("approve // new snapshot", func() error { return c.approves(ctx, id) }, func() error { return c.discovers(ctx, id) })
		case 5:
			c.race("quarantine // approve", func() error {
				_, err := c.anyone().servers.QuarantineMcpServer(ctx, &pb.QuarantineMcpServerRequest{ServerId: id, Comment: "a test"})
				return err
			}, func() error { return c.approves(ctx, id) })
		}
	}
	switch rand.IntN(4) {
	case 0:
		c.race("approve // retire", func() error { return c.approves(ctx, id) }, func() error { return c.retires(ctx, id) })
	case 1:
		c.race("retire // discover", func() error { return c.retires(ctx, id) }, func() error { return c.discovers(ctx, id) })
	case 2:
		c.race("retire // retire", func() error { return c.retires(ctx, id) }, func() error { return c.retires(ctx, id) })
	}
	return nil // every fourth stays
}

// registers has two callers want the name, at once and with two keys: exactly one
// of them gets it, whatever dies meanwhile.
func (c *cluster) registers(ctx context.Context, name, url string) (string, error) {
	var all sync.WaitGroup
	ids, errs := make([]string, 2), make([]error, 2)
	for n := range ids {
		all.Go(func() {
			key := fmt.Sprintf("key %d of %s", n, name)
			errs[n] = eventually(ctx, func() error {
				s, err := c.anyone().register(ctx, key, name, url)
				c.log.see("register // register", err, whoRegisters...)
				if err == nil {
					ids[n] = s.GetServerId()
					c.log.do(func() { c.log.keys[key] = ack{ids[n], name, url} })
				}
				if err != nil && reasonOf(err) == registry.ReasonServerExists {
					return final{err}
				}
				return err
			})
		})
	}
	all.Wait()
	if ids[0] != "" && ids[1] != "" {
		return "", fmt.Errorf("both got the name: %v", ids)
	}
	if ids[0]+ids[1] == "" {
		return "", fmt.Errorf("nobody got the name: %w, %w", errs[0], errs[1])
	}
	return ids[0] + ids[1], nil
}

// race does two things at once, each a moment later than the other.
func (c *cluster) race(name string, calls ...func() error) {
	var all sync.WaitGroup
	for _, call := range calls {
		all.Go(func() {
			time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
			c.log.see(name, call(), whoMeets...)
		})
	}
	all.Wait()
}

// approves says yes to what is under review, if anything is: between a move and the
// discovery after it nothing is, and the API refuses a request that names nothing.
func (c *cluster) approves(ctx context.Context, id string) error {
	who := c.anyone()
	request, err := who.approval(ctx, id)
	if err != nil || request.GetDigest() == "" {
		return err
	}
	_, err = who.servers.ActivateMcpServer(ctx, request)
	return err
}

func (c *cluster) discovers(ctx context.Context, id string) error {
	ctx, _ = keyed(ctx, fmt.Sprint("discovery ", rand.Uint64()))
	_, err := c.anyone().servers.DiscoverMcpCapabilities(ctx, &pb.DiscoverMcpCapabilitiesRequest{ServerId: id})
	return err
}

func (c *cluster) retires(ctx context.Context, id string) error {
	_, err := c.anyone().servers.RetireMcpServer(ctx, &pb.RetireMcpServerRequest{ServerId: id})
	if err == nil {
		c.log.do(func() { c.log.retired[id] = true })
	}
	return err
}

func (c *cluster) edits(ctx context.Context, id string) error {
	_, err := c.anyone().servers.UpdateMcpServer(ctx, &pb.UpdateMcpServerRequest{
		ServerId: id, Server: &pb.ServerPatch{Description: fmt.Sprint("edit ", rand.Uint64())}, UpdateMask: mask("description"),
	})
	if err == nil {
		c.log.do(func() { c.log.edits[id]++ })
	}
	return err
}

func (c *cluster) switches(ctx context.Context, name string, on bool) error {
	_, err := c.anyone().catalog.SetToolEnabled(ctx, &pb.SetToolEnabledRequest{ToolId: name + ".tool_0000", Enabled: on})
	return err
}

// activateOnce approves when the server is not active yet.
func (c caller) activateOnce(ctx context.Context, id string) error {
	if _, err := c.in(ctx, id, active); err == nil {
		return nil
	}
	if _, err := c.approve(ctx, id); err != nil {
		return err
	}
	_, err := c.in(ctx, id, active)
	return err
}
