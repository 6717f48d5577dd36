package mcptest

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

//go:embed scripts/*.json
var scripts embed.FS

// The transports of a script file.
const (
	OverHTTP  = "http"  // streamable HTTP
	OverSSE   = "sse"   // HTTP+SSE, the older one
	OverStdio = "stdio" // a process
)

// File is a script as a JSON file; docs/fault-server.md describes the format.
type File struct {
	Name      string // of the file
	About     string // one line
	Transport string // [OverHTTP], [OverSSE] or [OverStdio]

	text []byte
	spec fileSpec
}

type fileSpec struct {
	About     string `json:"about"`
	Transport string `json:"transport"`

	Era          string          `json:"era"`
	Framing      string          `json:"framing"  on:"http"`
	Sessions     bool            `json:"sessions" on:"http"`
	Version      string          `json:"version"`
	Name         string          `json:"name"`
	Instructions string          `json:"instructions"`
	ServerInfo   json.RawMessage `json:"serverInfo"`
	Capabilities json.RawMessage `json:"capabilities"`

	Lists    map[string]listSpec   `json:"lists"`
	Faults   []faultSpec           `json:"faults"`
	Paths    map[string]answerSpec `json:"paths"    on:"http,sse"`
	Endpoint string                `json:"endpoint" on:"sse"`
	TLS      string                `json:"tls"      on:"http,sse"`
	Process  processSpec           `json:"process"  on:"stdio"`
}

type faultSpec struct {
	On   names `json:"on"`
	When when  `json:"when"`
	answerSpec
}

// Load reads a script file from the disk.
func Load(name string) (*File, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("script: %w", err)
	}
	return Parse(name, text)
}

// Fixture gives a script of mcptest/scripts, by its name without ".json".
func Fixture(name string) (*File, error) {
	text, err := fs.ReadFile(scripts, path.Join("scripts", name+".json"))
	if err != nil {
		return nil, fmt.Errorf("script: %w", err)
	}
	return Parse(name, text)
}

// Fixtures gives the names of the scripts of mcptest/scripts, sorted.
func Fixtures() []string {
	files, _ := fs.Glob(scripts, "scripts/*.json") // the pattern is right
	for i, file := range files {
		files[i] = strings.TrimSuffix(path.Base(file), ".json")
	}
	slices.Sort(files)
	return files
}

// Parse reads a script. It refuses unknown keys, values of another kind, knobs
// that the transport does not have, and says where; name is for its errors.
func Parse(name string, text []byte) (*File, error) {
	f := &File{Name: name, text: text}
	if err := f.parse(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if _, err := f.Script(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) parse() error {
	if err := syntax(f.text); err != nil {
		return err
	}
	var first struct {
		Transport string `json:"transport"`
	}
	_ = json.Unmarshal(f.text, &first) // its kind is checked below
	f.Transport = cmp.Or(first.Transport, OverHTTP)
	if err := oneOf("transport", f.Transport, []string{OverHTTP, OverSSE, OverStdio}); err != nil {
		return err
	}
	f.spec = fileSpec{}
	if err := (decoder{f.Transport}).decode("", f.text, reflect.ValueOf(&f.spec).Elem()); err != nil {
		return err
	}
	f.About = f.spec.About
	if f.About == "" || strings.Contains(f.About, "\n") {
		return at("about", "it must say in one line what this server does")
	}
	return nil
}

// Script makes the script of it.
func (f *File) Script() (Script, error) {
	s, err := f.script()
	if err != nil {
		return Script{}, fmt.Errorf("%s: %w", f.Name, err)
	}
	return s, nil
}

func (f *File) script() (Script, error) {
	spec := &f.spec
	s := Script{
		Sessions: spec.Sessions, Version: spec.Version, Name: spec.Name, Instructions: spec.Instructions,
		ServerInfo: string(spec.ServerInfo), Capabilities: string(spec.Capabilities),
	}
	if s.ServerInfo == `"-"` {
		s.ServerInfo = "-"
	}
	eras := map[string]Era{"": Both, "both": Both, "modern": Modern, "legacy": Legacy}
	framings := map[string]Framing{"": JSON, "json": JSON, "sse": SSE}
	if err := oneOf("era", spec.Era, slices.Sorted(maps.Keys(eras))); err != nil {
		return s, err
	}
	if err := oneOf("framing", spec.Framing, slices.Sorted(maps.Keys(framings))); err != nil {
		return s, err
	}
	if err := oneOf("tls", spec.TLS, certificates); err != nil {
		return s, err
	}
	s.Era, s.Framing = eras[spec.Era], framings[spec.Framing]
	if f.Transport == OverSSE {
		if spec.Era != "" && s.Era != Legacy {
			return s, at("era", "HTTP+SSE ended before server/discover: only legacy")
		}
		s.Era, s.Endpoint = Legacy, cmp.Or(spec.Endpoint, "/message?session=$SESSION")
	}
	for method, list := range spec.Lists {
		where := fmt.Sprintf("lists[%q]", method)
		if keys[method] == "" {
			return s, at(where, "no list method; it knows %s", strings.Join(slices.Sorted(maps.Keys(keys)), ", "))
		}
		l, err := list.list(where, method)
		if err != nil {
			return s, err
		}
		s.List(method, l)
	}
	for url, answer := range spec.Paths {
		where := fmt.Sprintf("paths[%q]", url)
		if !strings.HasPrefix(url, "/") {
			return s, at(where, "a path begins with /")
		}
		if err := answer.check(where); err != nil {
			return s, err
		}
		s.Paths = replaced(s.Paths, url, answer.fault(), false)
	}
	return s, f.faults(&s)
}

// faults adds the faults: those of a method in the order of the file, and then
// those of any.
func (f *File) faults(s *Script) error {
	for i := range f.spec.Faults {
		spec := &f.spec.Faults[i]
		where := "faults[" + strconv.Itoa(i) + "]"
		if err := spec.check(where); err != nil {
			return err
		}
		if len(spec.On) == 0 {
			spec.On = names{Any}
		}
		meets := When(spec.When.match, spec.fault())
		for _, method := range spec.On {
			earlier := s.Faults[method]
			s.Fault(method, func(x *Exchange) bool { return earlier != nil && earlier(x) || meets(x) })
		}
	}
	return f.spec.Process.check("process")
}

// Start starts the server of a file for HTTP or HTTP+SSE on a loopback port,
// with its canary if the file names $CANARY; end it with [Server.Close].
func (f *File) Start() (*Server, error) { return f.Listen("127.0.0.1:0", nil) }

// Listen is [File.Start] on an address; with a log, it writes a [Record] for
// everything that comes, one JSON text a line.
func (f *File) Listen(address string, log io.Writer) (*Server, error) {
	if f.Transport == OverStdio {
		return nil, fmt.Errorf("%s: a script for stdio has no address", f.Name)
	}
	records := newRecorder(log)
	records.start()
	other, script, err := f.withCanary(records)
	if err != nil {
		return nil, err
	}
	s := Handler(script)
	s.Canary, s.log = other, records
	l, err := net.Listen("tcp", address)
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("listen: %w", err)
	}
	scheme := "http"
	if f.spec.TLS != "" {
		certificate, err := certificate(f.spec.TLS)
		if err != nil {
			_ = l.Close()
			s.Close()
			return nil, err
		}
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
		scheme = "https"
	}
	s.serve(l, control(s), scheme)
	return s, nil
}

// canary is the origin of another server, in the text of a script.
const canary = "$CANARY"

// withCanary starts the canary if the file names it, and gives the script that
// knows its address.
func (f *File) withCanary(records *recorder) (*Server, Script, error) {
	if !bytes.Contains(f.text, []byte(canary)) {
		script, err := f.Script()
		return nil, script, err
	}
	other, err := Start(Script{})
	if err != nil {
		return nil, Script{}, err
	}
	other.mu.Lock()
	other.log = records.of("canary")
	other.mu.Unlock()
	script, err := f.fill(other)
	if err != nil {
		other.Close()
		return nil, Script{}, err
	}
	return other, script, nil
}

// fill gives the script with the address of its canary.
func (f *File) fill(other *Server) (Script, error) {
	if !bytes.Contains(f.text, []byte(canary)) {
		return f.Script()
	}
	if other == nil {
		return Script{}, fmt.Errorf("%s: this server was started without a canary", f.Name)
	}
	origin := strings.TrimSuffix(other.URL, "/mcp")
	filled, err := Parse(f.Name, bytes.ReplaceAll(f.text, []byte(canary), []byte(origin)))
	if err != nil {
		return Script{}, err
	}
	return filled.Script()
}
