// Package embedded runs a complete Temporal server, and its web UI, inside this process: for the development
// process and for tests. It is no production server: one process, one SQLite database, one history shard, no
// authentication. Therefore everything listens on loopback only, and nothing calls out.
package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/temporal"
)

// Options of an in-process Temporal server.
type Options struct {
	// DatabaseFile is the SQLite file that holds everything; it is created when absent, readable by its owner only,
	// in a directory that must exist. One server at a time may have it open. Empty means in memory: all is gone
	// after Stop.
	DatabaseFile string

	// Postgres is the DSN of a Postgres database, postgres://user:password@host:port/database, beside which the server
	// has two of its own; its user may make databases. It excludes DatabaseFile, and with it Namespace and
	// SearchAttributes are not registered: that is done over the API then, as on a production server.
	Postgres string

	// Listen is the host:port of the gRPC frontend; port 0 picks a free one. Empty means "127.0.0.1:0". The host
	// must be loopback, since whoever reaches the frontend may do anything.
	Listen string

	// UIListen is the host:port of the web UI, under the same rules as Listen. Empty means no UI.
	UIListen string

	// Namespace is registered with a retention of 7 days when it is absent, and kept as it is when it exists.
	// Empty means "default".
	Namespace string

	// SearchAttributes are registered in the namespace when they are absent. An attribute that exists with another
	// type is an error, and so are more attributes than SQLite has columns for: 10 keywords, 3 of each other type.
	SearchAttributes map[string]enumspb.IndexedValueType

	// Logger gets what the server logs at warn and above, until Stop. Nil means slog.Default().
	Logger *slog.Logger
}

// Server is a running Temporal server. Its methods may be called from any goroutine.
type Server struct {
	address netip.AddrPort
	log     *logger
	stop    func() error

	store  *store
	ui     *ui // nil without UI
	server temporal.Server
}

// Start starts a server and returns when its frontend serves and the namespace and its search attributes can be
// used. Cancelling ctx abandons the start; a server that was returned runs until Stop.
//
// It fails when an address is taken or not loopback, and when the database file cannot be opened, is open in
// another server, or was made by a Temporal version with another schema.
func Start(ctx context.Context, o Options) (_ *Server, err error) {
	s := &Server{log: newLogger(cmp.Or(o.Logger, slog.Default()))}
	s.stop = sync.OnceValue(s.shutdown)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()

	if s.address, err = choose(cmp.Or(o.Listen, "127.0.0.1:0")); err != nil {
		return nil, fmt.Errorf("temporal frontend: %w", err)
	}
	namespace := cmp.Or(o.Namespace, "default")
	if o.UIListen != "" {
		if s.ui, err = startUI(o.UIListen, s.address, namespace, s.log); err != nil {
			return nil, fmt.Errorf("temporal ui: %w", err)
		}
	}
	if o.Postgres != "" {
		if s.store, err = openPostgres(ctx, o.Postgres); err != nil {
			return nil, fmt.Errorf("temporal database: %w", err)
		}
		namespace = systemNamespace
	} else {
		if s.store, err = openStore(ctx, o.DatabaseFile); err != nil {
			return nil, fmt.Errorf("temporal database: %w", err)
		}
		if err := s.store.register(ctx, namespace, o.SearchAttributes); err != nil {
			return nil, fmt.Errorf("temporal database: %w", err)
		}
	}
	if err := s.start(); err != nil {
		return nil, fmt.Errorf("temporal server: %w", err)
	}
	if err := awaitReady(ctx, s.address, namespace); err != nil {
		return nil, fmt.Errorf("temporal server: %w", err)
	}
	return s, nil
}

// start gives the server's own start a goroutine of its own. What Temporal cannot survive, such as a port that was
// taken meanwhile, it reports by Logger.Fatal, which must not return: ours ends the goroutine, not the process.
func (s *Server) start() error {
	result := make(chan error, 1)
	go func() {
		err := errors.New("the start was given up")
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
			result <- err
		}()
		err = s.launch()
	}()
	err := <-result
	return cmp.Or(s.log.fatal(), err) // the first is the cause of the second
}

func (s *Server) launch() error {
	server, err := newServer(s.address, s.store, s.log)
	if err != nil {
		return err
	}
	s.server = server
	return server.Start()
}

// Address is the host:port of the gRPC frontend.
func (s *Server) Address() string { return s.address.String() }

// UIURL is the address of the web UI, without a trailing slash; empty when there is no UI.
func (s *Server) UIURL() string {
	if s.ui == nil {
		return ""
	}
	return "http://" + s.ui.address
}

// Stop stops the UI and the server and closes the database. When it returns, the ports are free, the file is
// closed, and nothing writes to it any more. It takes up to five seconds while clients hold calls open. Later calls
// wait for the first one and return its result.
func (s *Server) Stop() error { return s.stop() }

func (s *Server) shutdown() error {
	s.log.silence() // from here on it would report the connections that we close ourselves
	var errs []error
	if s.ui != nil {
		errs = append(errs, s.ui.stop())
	}
	if s.server != nil {
		errs = append(errs, s.server.Stop())
	}
	if s.store != nil {
		errs = append(errs, s.store.close())
	}
	return errors.Join(errs...)
}
