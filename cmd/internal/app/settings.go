package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"countersign/cmd/internal/capabilities"
	"countersign/cmd/internal/config"
	"countersign/db"
	"countersign/registry"
)

// settings are what follows the configuration when it is read again on SIGHUP
// (R200): the bound of a handshake, the allow-list of commands, the
// capability table and the quotas.
type settings struct {
	db      *db.DB // goes by the capability table
	current atomic.Pointer[setting]
}

type setting struct {
	connect  time.Duration
	commands config.AllowList
}

func (s *settings) take(c config.Config) error {
	commands, err := c.AllowList()
	if err != nil {
		return err
	}
	table, err := capabilities.Load(c.Capabilities.Table)
	if err != nil {
		return fmt.Errorf("capabilities.table: %w", err)
	}
	s.db.SetCapabilities(table)
	s.db.SetQuotas(c.Quotas.Registry())
	s.current.Store(&setting{time.Duration(c.HandshakeTimeoutSeconds) * time.Second, commands})
	return nil
}

// limits are those of the MCP client.
func (s *settings) limits() registry.Limits {
	l := registry.DefaultLimits()
	l.Connect = s.current.Load().connect
	return l
}

// command looks a command up.
func (s *settings) command(tenant, ref string) (registry.Command, error) {
	return s.current.Load().commands.Find(tenant, ref)
}

// commands names those that a tenant may use.
func (s *settings) commands(tenant string) []string {
	return s.current.Load().commands.Names(tenant)
}

// settings gives the settings of this process, and reads the configuration
// again on each SIGHUP until the context is over.
func (a App) settings(ctx context.Context) (*settings, error) {
	s := &settings{db: a.DB}
	if err := s.take(a.Config); err != nil || a.Reload == nil {
		return s, err
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	go func() {
		defer signal.Stop(hangup)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangup:
			}
			fresh, err := a.Reload()
			if err == nil {
				err = s.take(fresh)
			}
			if err != nil {
				a.Log.LogAttrs(ctx, slog.LevelError, "configuration not reloaded", slog.Any("error", err))
				continue
			}
			a.Log.LogAttrs(ctx, slog.LevelInfo, "configuration reloaded",
				slog.Int("handshake_timeout_seconds", fresh.HandshakeTimeoutSeconds), slog.Int("commands", len(fresh.Commands)))
		}
	}()
	return s, nil
}
