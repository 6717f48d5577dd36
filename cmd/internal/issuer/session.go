package issuer

import (
	"encoding/base64"
	"net/http"
	"slices"
)

// sessionCookie says as whom a browser signed in last. It proves nothing, as
// nothing else here does: whoever reaches the issuer may be anybody.
const sessionCookie = "countersign_dev_session"

// shows says whether the client wants the page to be shown in any case (OpenID
// Connect Core 1.0, section 3.1.2.1).
func (r request) shows() bool {
	return slices.Contains(r.prompts, "login") || slices.Contains(r.prompts, "select_account")
}

// remember keeps a person in the browser; nobody, when the key is empty.
func (i *Issuer) remember(w http.ResponseWriter, key string) {
	c := &http.Cookie{ //nolint:gosec // loopback has no TLS
		Name: sessionCookie, Value: base64.RawURLEncoding.EncodeToString([]byte(key)), Path: i.prefix + "/",
		HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
	if key == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

func (i *Issuer) remembered(r *http.Request) (User, bool) {
	c, err := r.Cookie(sessionCookie)
	if err != nil {
		return User{}, false
	}
	key, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil {
		return User{}, false
	}
	return i.user(string(key))
}

// signOut forgets who the browser is (OpenID Connect RP-Initiated Logout 1.0,
// section 2), and leads it nowhere.
func (i *Issuer) signOut(w http.ResponseWriter, _ *http.Request) {
	i.remember(w, "")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("You are signed out.\n")) // the browser went away
}
