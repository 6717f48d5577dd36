package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

// Path is where the console is, below the base path of the installation.
const Path = "/console/"

// baseTag is in the built index.html, and names the base path once it is served.
const baseTag = `<base href="` + Path + `">`

// Config is what the pages are told of the installation, at config.json beside
// them. Everybody may read it.
type Config struct {
	Issuer            string   `json:"issuer"`   // where one signs in; empty: a token is pasted
	ClientID          string   `json:"clientId"` // of the pages, at the issuer
	Scopes            []string `json:"scopes"`   // to ask it for
	Audience          string   `json:"audience,omitempty"`
	TemporalUI        string   `json:"temporalUi"` // empty: there is none to link to
	TemporalNamespace string   `json:"temporalNamespace"`
	Version           string   `json:"version"`
	API               string   `json:"api"` // path of the API on this origin, without a slash at its end
}

// Options is what the console needs.
type Options struct {
	Base    string   // path at which browsers see the installation, such as /registry/; "/" when empty
	Config  Config   // but for API, which Base says
	Connect []string // origins that the pages may ask, besides their own: the issuer's
	Pages   fs.FS    // Pages() when nil
}

// Handler serves the console below [Path], and sends browsers there that ask for
// "/". It needs no credential: there is nothing of a tenant in it.
type Handler struct {
	base   string
	policy string
	index  page            // without body: the pages were not built
	files  map[string]page // by name
}

// New reads the pages into memory. It fails on an index.html that does not say
// where its base is.
func New(o Options) (*Handler, error) {
	if o.Pages == nil {
		o.Pages = Pages()
	}
	h := &Handler{base: strings.TrimSuffix(o.Base, "/"), files: map[string]page{}}
	o.Config.API = h.base
	h.policy = policy(o.Connect)
	raw, err := json.Marshal(o.Config)
	if err != nil {
		return nil, err
	}
	h.files["config.json"] = newPage("config.json", append(raw, '\n'))
	err = fs.WalkDir(o.Pages, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(path.Base(name), ".") {
			return err
		}
		body, err := fs.ReadFile(o.Pages, name)
		if err != nil {
			return err
		}
		if name == "index.html" {
			if !bytes.Contains(body, []byte(baseTag)) {
				return fmt.Errorf("the console's index.html lacks %s", baseTag)
			}
			body = bytes.Replace(body, []byte(baseTag), []byte(`<base href="`+h.base+Path+`">`), 1)
			h.index = newPage(name, body)
			return nil
		}
		h.files[name] = newPage(name, body)
		return nil
	})
	return h, err
}

// policy lets the pages run their own scripts and no others, ask this origin and
// those, and be framed by nobody. Styles may stand in the page: Mantine puts them
// there.
func policy(connect []string) string {
	ask := strings.Join(append([]string{"'self'"}, connect...), " ")
	return "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; " +
		"manifest-src 'self'; connect-src " + ask + "; base-uri 'self'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"
}

// notBuilt is said when index.html was missing when the program was built.
const notBuilt = "This program was built without the pages of the console: console/dist was empty. `make console` builds them.\n"

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, below := strings.CutPrefix(r.URL.Path, Path)
	entrance := r.URL.Path == "/" && wantsPage(r) || r.URL.Path == strings.TrimSuffix(Path, "/")
	if !below && !entrance {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the console is only read", http.StatusMethodNotAllowed)
		return
	}
	if entrance {
		w.Header().Set("Cache-Control", "no-cache")
		http.Redirect(w, r, h.base+Path, http.StatusTemporaryRedirect)
		return
	}
	w.Header().Set("Content-Security-Policy", h.policy)
	if file, ok := h.files[name]; ok {
		file.serve(w, r)
		return
	}
	switch {
	case name != "" && name != "index.html" && (strings.HasPrefix(name, assets) || !wantsPage(r)):
		http.NotFound(w, r)
	case h.index.body == nil:
		http.Error(w, notBuilt, http.StatusNotFound)
	default:
		h.index.serve(w, r) // it shows what the path names
	}
}

// wantsPage says whether a person asks with a browser, and no script of a page.
func wantsPage(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// unchanged is when pages were last changed: what is sent instead is their tag.
var unchanged time.Time
