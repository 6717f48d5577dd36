package issuer

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// tokens is the answer of the token endpoint (RFC 6749, section 5.1).
type tokens struct {
	Access  string `json:"access_token"`
	Type    string `json:"token_type"`
	Seconds int    `json:"expires_in"`
	Refresh string `json:"refresh_token,omitempty"`
	ID      string `json:"id_token,omitempty"`
	Scope   string `json:"scope"`
}

// deny answers with an error of the token endpoint (RFC 6749, section 5.2).
func deny(w http.ResponseWriter, status int, fault string) {
	reply(w, status, map[string]string{"error": fault})
}

func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		deny(w, http.StatusBadRequest, "invalid_request")
		return
	}
	form := r.PostForm
	switch form.Get("grant_type") {
	case "authorization_code":
		one, ok := i.codes.take(form.Get("code"), form.Get("client_id"), form.Get("redirect_uri"), form.Get("code_verifier"), i.o.Now())
		if !ok {
			deny(w, http.StatusBadRequest, "invalid_grant")
			return
		}
		i.signedIn(w, one)
	case "refresh_token":
		g, next, ok, err := i.store.refresh(form.Get("client_id"), form.Get("refresh_token"), i.o.Now())
		who, known := i.user(g.User)
		switch {
		case err != nil:
			deny(w, http.StatusInternalServerError, "server_error")
		case !ok || !known:
			deny(w, http.StatusBadRequest, "invalid_grant")
		default:
			i.give(w, who, g.Client, i.o.Audience, g.Scopes, tokens{Refresh: next})
		}
	case "client_credentials":
		id, secret := credentials(r, form)
		n := slices.IndexFunc(i.o.Services, func(s Service) bool { return s.ID == id })
		if n < 0 || !i.store.authentic(id, secret) {
			w.Header().Set("WWW-Authenticate", `Basic realm="countersign-dev"`)
			deny(w, http.StatusUnauthorized, "invalid_client")
			return
		}
		who := i.o.Services[n].As
		audience, ok := i.o.Services[n].audience(form["resource"], i.o.Audience)
		if !ok {
			deny(w, http.StatusBadRequest, "invalid_target")
			return
		}
		i.give(w, who, id, audience, narrow(who.Scopes, strings.Fields(form.Get("scope"))), tokens{})
	default:
		deny(w, http.StatusBadRequest, "unsupported_grant_type")
	}
}

// signedIn gives the tokens of a code.
func (i *Issuer) signedIn(w http.ResponseWriter, one code) {
	var out tokens
	var err error
	scopes := narrow(one.user.Scopes, one.scopes)
	if slices.Contains(one.scopes, "openid") {
		out.ID, err = i.idToken(one.user, one.client, one.nonce)
	}
	if err == nil && slices.Contains(one.scopes, "offline_access") {
		out.Refresh, err = i.store.grant(grant{Client: one.client, User: one.user.key(), Scopes: scopes}, i.o.Now())
	}
	if err != nil {
		deny(w, http.StatusInternalServerError, "server_error")
		return
	}
	i.give(w, one.user, one.client, i.o.Audience, scopes, out)
}

// give answers with an access token, besides what is in the answer already.
func (i *Issuer) give(w http.ResponseWriter, who User, client, audience string, scopes []string, out tokens) {
	token, err := i.accessToken(who, client, audience, scopes, i.o.Life)
	if err != nil {
		deny(w, http.StatusInternalServerError, "server_error")
		return
	}
	out.Access, out.Type, out.Seconds, out.Scope = token, "Bearer", int(i.o.Life.Seconds()), strings.Join(scopes, " ")
	reply(w, http.StatusOK, out)
}

// audience is whom a token for the resources of a request is for.
func (s Service) audience(resources []string, usual string) (string, bool) {
	switch {
	case len(s.Resources) == 0 && len(resources) == 0:
		return usual, true
	case len(resources) != 1:
		return "", false // no token is for two
	case len(s.Resources) == 0:
		return usual, resources[0] == usual
	}
	return resources[0], slices.Contains(s.Resources, resources[0])
}

// narrow gives those of the scopes that were asked for; all when none of them
// was asked for by name.
func narrow(all, asked []string) []string {
	var out []string
	for _, scope := range all {
		if slices.Contains(asked, scope) {
			out = append(out, scope)
		}
	}
	if out == nil {
		return all
	}
	return out
}

// credentials gives the id and the secret of a service, from the header or the
// form (RFC 6749, section 2.3.1).
func credentials(r *http.Request, form url.Values) (id, secret string) {
	user, password, ok := r.BasicAuth()
	if !ok {
		return form.Get("client_id"), form.Get("client_secret")
	}
	id, _ = url.QueryUnescape(user) // one that cannot be read is no service's
	secret, _ = url.QueryUnescape(password)
	return id, secret
}

// revoke ends what a refresh token stands for (RFC 7009). That there was
// nothing to end is no fault.
func (i *Issuer) revoke(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		deny(w, http.StatusBadRequest, "invalid_request")
		return
	}
	if err := i.store.revoke(r.PostForm.Get("client_id"), r.PostForm.Get("token")); err != nil {
		deny(w, http.StatusInternalServerError, "server_error")
		return
	}
	w.WriteHeader(http.StatusOK)
}
