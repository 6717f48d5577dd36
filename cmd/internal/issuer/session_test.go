package issuer_test

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// ask follows a link to the sign-in page, as a browser with these cookies.
func (h *house) ask(t *testing.T, change url.Values, cookies []*http.Cookie) (int, url.Values) {
	t.Helper()
	form := asking()
	form.Set("client_id", "pages")
	form.Set("redirect_uri", "http://127.0.0.1:8080/console/")
	maps.Copy(form, change)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+"/authorize?"+form.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cookies {
		r.AddCookie(c)
	}
	response, err := still.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	to, err := url.Parse(response.Header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, to.Query()
}

// Pages keep their token in memory alone, so a reload signs in again: without a question, to whom signed in.
func TestABrowserIsRememberedForPages(t *testing.T) {
	t.Parallel()
	h := fresh(t)
	if status, _ := h.ask(t, nil, nil); status != http.StatusOK {
		t.Fatalf("a stranger is not shown the page: %d", status)
	}
	if _, q := h.ask(t, url.Values{"prompt": {"none"}}, nil); q.Get("error") != "login_required" {
		t.Errorf("a stranger who may not be asked gets %v", q)
	}
	form := asking()
	form.Set("client_id", "pages")
	form.Set("redirect_uri", "http://127.0.0.1:8080/console/")
	form.Set("user", "default/alice")
	_, header, _ := h.post(t, "/authorize", form)
	cookies := (&http.Response{Header: header}).Cookies()
	if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteLaxMode || cookies[0].Path != "/dev/" {
		t.Fatalf("the browser keeps %v", cookies)
	}
	for name, change := range map[string]url.Values{"usually": nil, "silently": {"prompt": {"none"}}} {
		if status, q := h.ask(t, change, cookies); status != http.StatusSeeOther || q.Get("code") == "" || q.Get("state") != "the-state" {
			t.Errorf("%s it comes to %d %v", name, status, q)
		}
	}
	for _, prompt := range []string{"login", "select_account"} {
		if status, _ := h.ask(t, url.Values{"prompt": {prompt}}, cookies); status != http.StatusOK {
			t.Errorf("prompt=%s shows no page: %d", prompt, status)
		}
	}
	// The command line client asks each time, and what cannot be read is nobody.
	if status, _ := h.ask(t, url.Values{"client_id": {"cli"}, "redirect_uri": {"http://127.0.0.1:5555/callback"}}, cookies); status != http.StatusOK {
		t.Errorf("the other client comes to %d", status)
	}
	for _, value := range []string{"", "!", "bm9ib2R5"} {
		if status, _ := h.ask(t, nil, []*http.Cookie{{Name: cookies[0].Name, Value: value}}); status != http.StatusOK {
			t.Errorf("the cookie %q comes to %d", value, status)
		}
	}
	response, err := still.Get(h.url + "/logout")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if over := response.Header.Get("Set-Cookie"); !strings.Contains(over, "Max-Age=0") {
		t.Errorf("signing out sets %q", over)
	}
}
