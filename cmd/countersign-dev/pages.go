package main

import (
	"net"
	"net/http"
	"net/url"
	"strings"

	"countersign/cmd/internal/app"
	"countersign/cmd/internal/config"
	"countersign/cmd/internal/issuer"
)

// devPages are what browsers see: the issuer's, and the console.
func devPages(conf config.Config, namespace string, people *issuer.Issuer) (http.Handler, error) {
	pages := http.NewServeMux()
	pages.Handle(issuerPath+"/", people.Handler())
	shown, err := app.Console(conf, namespace)
	if err != nil || shown == nil {
		return pages, err
	}
	pages.Handle("/", atHome(conf.Console.Issuer, shown))
	return pages, nil
}

// atHome leads people who ask by another name of this machine to the one that the
// issuer has: what one of them is told, the other's pages may not ask.
func atHome(issuerURL string, next http.Handler) http.Handler {
	home, err := url.Parse(issuerURL)
	if err != nil || home.Scheme != "http" || !isLoopback(home.Hostname()) {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, port, err := net.SplitHostPort(r.Host)
		if err != nil || port != home.Port() || name == home.Hostname() || r.Method != http.MethodGet || !strings.Contains(r.Header.Get("Accept"), "text/html") {
			next.ServeHTTP(w, r)
			return
		}
		http.Redirect(w, r, "http://"+home.Host+r.URL.RequestURI(), http.StatusTemporaryRedirect) //nolint:gosec // the host is ours
	})
}

func isLoopback(name string) bool {
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}
