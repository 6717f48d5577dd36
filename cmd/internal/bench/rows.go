package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func init() { parts["rows"] = rows } //nolint:gochecknoinits // a part is known by its file

// rows passes the rows of a page of servers through as JSON, by pgx alone: no
// authentication, no messages, nothing that stands beside them.
func rows(args []string) error {
	in, err := arguments[served](args)
	if err != nil {
		return err
	}
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, in.Database)
	if err != nil {
		return err
	}
	defer pool.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	protocols.SetHTTP1(true)
	server := &http.Server{Protocols: &protocols, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		//nolint:unqueryvet // the product reads all columns, too
		list, err := pool.Query(r.Context(), "SELECT * FROM mcp_servers WHERE tenant_id = $1 AND state <> 'retired' ORDER BY name LIMIT 100", in.Tenants[0])
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		page, err := pgx.CollectRows(list, pgx.RowToMap)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		text, err := json.Marshal(page)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text) // whoever asked went away
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	err = answerLines("http://"+listener.Addr().String(), nil)
	return errors.Join(err, server.Close(), clean(<-ended))
}
