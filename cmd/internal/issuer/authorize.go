package issuer

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// pagePolicy lets the page do nothing but show itself, and nobody frame it. The
// hash is that of its style.
var pagePolicy = func() string {
	_, rest, _ := strings.Cut(pageText, "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; frame-ancestors 'none'; base-uri 'none'"
}()

// request is an authorization request that may be answered.
type request struct {
	client, redirect, state, nonce, challenge string
	scopes, prompts                           []string
	remembers                                 bool // the client lets browsers stay signed in
}

var challenge = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// read reads an authorization request. Without a good redirect nothing may be
// sent anywhere; other faults are told to the client.
func (i *Issuer) read(q url.Values) (r request, fault string, ok bool) {
	for _, values := range q {
		if len(values) > 1 {
			return r, "a parameter stands there twice", false
		}
	}
	r = request{
		client: q.Get("client_id"), redirect: q.Get("redirect_uri"), state: q.Get("state"), nonce: q.Get("nonce"),
		challenge: q.Get("code_challenge"), scopes: strings.Fields(q.Get("scope")), prompts: strings.Fields(q.Get("prompt")),
	}
	n := slices.IndexFunc(i.o.Clients, func(c Client) bool { return c.ID == r.client })
	if n < 0 {
		return r, "there is no client of this id", false
	}
	if !slices.ContainsFunc(i.o.Clients[n].Redirects, func(registered string) bool { return sameRedirect(registered, r.redirect) }) {
		return r, "the client is not to be answered there", false
	}
	r.remembers = i.o.Clients[n].Remembers
	switch {
	case q.Get("response_type") != "code":
		return r, "unsupported_response_type", true
	case q.Get("code_challenge_method") != "S256" || !challenge.MatchString(r.challenge):
		return r, "invalid_request", true
	}
	return r, "", true
}

// sameRedirect compares a redirect with a registered one.
func sameRedirect(registered, asked string) bool {
	if registered == asked {
		return true
	}
	want, err := url.Parse(registered)
	if err != nil || want.Port() != "" || want.Scheme != "http" {
		return false
	}
	if ip, err := netip.ParseAddr(want.Hostname()); err != nil || !ip.IsLoopback() {
		return false
	}
	got, err := url.Parse(asked)
	if err != nil || got.Port() == "" {
		return false
	}
	// What is left without the port has to be the same text, so that there is
	// nothing else in it.
	return strings.Replace(asked, got.Host, strings.TrimSuffix(got.Host, ":"+got.Port()), 1) == registered
}

// page shows who can sign in.
func (i *Issuer) page(w http.ResponseWriter, r *http.Request) {
	asked, fault, ok := i.read(r.URL.Query())
	switch {
	case !ok:
		http.Error(w, fault, http.StatusBadRequest)
		return
	case fault != "":
		i.answer(w, r, asked, url.Values{"error": {fault}})
		return
	}
	if who, known := i.remembered(r); asked.remembers && known && !asked.shows() {
		i.answer(w, r, asked, i.codeFor(asked, who))
		return
	}
	if slices.Contains(asked.prompts, "none") {
		i.answer(w, r, asked, url.Values{"error": {"login_required"}})
		return
	}
	type person struct{ Key, Subject, Tenant, Roles string }
	var people []person
	for _, u := range i.o.Users {
		people = append(people, person{u.key(), u.Subject, u.Tenant, strings.Join(u.Roles, ", ")})
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", pagePolicy)
	w.Header().Set("Referrer-Policy", "same-origin") // no-referrer would take the Origin from the form
	_ = page.Execute(w, struct {                     // the browser went away
		Client string
		Query  map[string][]string
		People []person
	}{asked.client, r.URL.Query(), people})
}

// signIn gives the client a code for the person who was chosen.
func (i *Issuer) signIn(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, "the form cannot be read", http.StatusBadRequest)
		return
	}
	asked, fault, ok := i.read(r.PostForm)
	switch {
	case !ok:
		http.Error(w, fault, http.StatusBadRequest)
		return
	case fault != "":
		i.answer(w, r, asked, url.Values{"error": {fault}})
		return
	}
	who, known := i.user(r.PostForm.Get("user"))
	if !known {
		i.answer(w, r, asked, url.Values{"error": {"access_denied"}})
		return
	}
	if asked.remembers {
		i.remember(w, who.key())
	}
	i.answer(w, r, asked, i.codeFor(asked, who))
}

func (i *Issuer) codeFor(asked request, who User) url.Values {
	return url.Values{"code": {i.codes.make(code{request: asked, user: who}, i.o.Now())}}
}

func (i *Issuer) user(key string) (User, bool) {
	n := slices.IndexFunc(i.o.Users, func(u User) bool { return u.key() == key })
	if n < 0 {
		return User{}, false
	}
	return i.o.Users[n], true
}

// answer sends the browser back to the client, with the issuer's name so that
// the client can tell whose answer it is (RFC 9207).
func (i *Issuer) answer(w http.ResponseWriter, r *http.Request, asked request, values url.Values) {
	values.Set("iss", i.o.URL)
	if asked.state != "" {
		values.Set("state", asked.state)
	}
	http.Redirect(w, r, asked.redirect+"?"+values.Encode(), http.StatusSeeOther)
}

// code is what a code stands for.
type code struct {
	request

	user    User
	expires time.Time
}

// codes are those that were given out. They do not survive a restart.
type codes struct {
	mu  sync.Mutex
	all map[string]code
}

func (c *codes) make(one code, now time.Time) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for text, old := range c.all {
		if !now.Before(old.expires) {
			delete(c.all, text)
		}
	}
	if c.all == nil {
		c.all = map[string]code{}
	}
	text := rand.Text()
	one.expires = now.Add(codeLife)
	c.all[text] = one
	return text
}

// take gives what a code stands for, once, to whom it was given for.
func (c *codes) take(text, client, redirect, verifier string, now time.Time) (code, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one, known := c.all[text]
	delete(c.all, text) // also when the rest is wrong: somebody else has it
	sum := sha256.Sum256([]byte(verifier))
	proof := base64.RawURLEncoding.EncodeToString(sum[:])
	good := known && now.Before(one.expires) && one.client == client && one.redirect == redirect &&
		subtle.ConstantTimeCompare([]byte(proof), []byte(one.challenge)) == 1
	return one, good
}
