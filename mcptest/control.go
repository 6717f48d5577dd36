package mcptest

import (
	"encoding/json"
	"io"
	"net/http"
)

// ControlPath is where a server that was made of a [File] can be asked and told
// things; what happens there is not recorded.
//
//	GET    /.faulty/calls    every call so far, with ?of=canary those of the canary
//	DELETE /.faulty/calls    forget them, and count from 1 again
//	GET    /.faulty/state    numbers of calls, connections, sessions
//	PUT    /.faulty/script   another script of the same transport, from now on
const ControlPath = "/.faulty/"

// state is what GET /.faulty/state answers.
type state struct {
	Calls           int `json:"calls"`
	Connections     int `json:"connections"` // ever, this one included
	Open            int `json:"open"`
	Sessions        int `json:"sessions"`
	CanaryCalls     int `json:"canaryCalls"`
	CanaryConnected int `json:"canaryConnections"`
}

func control(s *Server) http.Handler {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, value any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(value) //nolint:errchkjson // calls and numbers
	}
	mux.HandleFunc("GET "+ControlPath+"calls", func(w http.ResponseWriter, r *http.Request) {
		of := s
		if r.URL.Query().Get("of") == "canary" && s.Canary != nil {
			of = s.Canary
		}
		answer(w, append([]Call{}, of.Calls()...))
	})
	mux.HandleFunc("DELETE "+ControlPath+"calls", func(w http.ResponseWriter, _ *http.Request) {
		s.Clear()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET "+ControlPath+"state", func(w http.ResponseWriter, _ *http.Request) {
		out := state{Calls: len(s.Calls()), Sessions: s.OpenSessions()}
		out.Connections, out.Open = s.Connections()
		if s.Canary != nil {
			out.CanaryCalls = len(s.Canary.Calls())
			out.CanaryConnected, _ = s.Canary.Connections()
		}
		answer(w, out)
	})
	mux.HandleFunc("PUT "+ControlPath+"script", func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<20))
		if err == nil {
			err = s.become(text)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	// The rest belongs to the server. The paths of a mux would clean URLs.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" && len(r.URL.Path) > len(ControlPath) && r.URL.Path[:len(ControlPath)] == ControlPath {
			mux.ServeHTTP(w, r)
			return
		}
		s.ServeHTTP(w, r)
	})
}

// Clear forgets the calls so far and counts from 1 again.
func (s *Server) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = nil
	clear(s.counts)
}

// become follows another script, of the same transport and canary.
func (s *Server) become(text []byte) error {
	f, err := Parse("script", text)
	if err != nil {
		return err
	}
	transport := OverHTTP
	s.Edit(func(old *Script) {
		if old.Endpoint != "" {
			transport = OverSSE
		}
	})
	if f.Transport != transport || f.spec.TLS != "" {
		return at("transport", "a server for %s cannot change its transport, nor to TLS", transport)
	}
	script, err := f.fill(s.Canary)
	if err != nil {
		return err
	}
	s.Edit(func(old *Script) { *old = script })
	return nil
}
