package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/temporalio/ui-server/v2/server/api"
	"github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/csrf"
	"github.com/temporalio/ui-server/v2/server/headers"
	"github.com/temporalio/ui-server/v2/server/route"
	assets "github.com/temporalio/ui-server/v2/ui"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// ui is the running web UI.
//
// It is put together from the parts of Temporal's UI server, not started as the whole: that one ends the process
// when its port is taken, cannot say which port it got, and leaves its connection to the frontend open.
type ui struct {
	address string
	conn    *grpc.ClientConn
	server  *http.Server
	served  chan error
}

func startUI(listen string, frontend netip.AddrPort, namespace string, log *logger) (*ui, error) {
	address, err := loopback(listen)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(frontend.String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, err
	}
	handler, err := uiHandler(frontend, namespace, conn)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	listener, err := net.Listen("tcp", address.String())
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	u := &ui{
		address: listener.Addr().String(),
		conn:    conn,
		server: &http.Server{
			Handler:           onlyLoopbackHosts(handler),
			ReadHeaderTimeout: 5 * time.Second,
			ErrorLog:          slog.NewLogLogger(log.out.Handler(), slog.LevelWarn),
		},
		served: make(chan error, 1),
	}
	go func() {
		err := u.server.Serve(listener)
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		u.served <- err
	}()
	return u, nil
}

// maxMessage is the size of the largest answer that the UI shows, in bytes.
const maxMessage = 64 << 20

func uiHandler(frontend netip.AddrPort, namespace string, conn *grpc.ClientConn) (http.Handler, error) {
	c, err := config.NewConfigProviderWithRefresh(&config.Config{
		TemporalGRPCAddress: frontend.String(),
		DefaultNamespace:    namespace,
		EnableUI:            true,
		HideLogs:            true,
		DisableNewsFetch:    true,
		NotifyOnNewVersion:  false,
		CORS:                config.CORS{CookieInsecure: true}, // loopback has no TLS
	})
	if err != nil {
		return nil, err
	}
	files, err := assets.Assets()
	if err != nil {
		return nil, err
	}
	if files, err = fs.Sub(files, "local"); err != nil {
		return nil, err
	}

	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.Use(middleware.Recover(), middleware.Gzip(), middleware.Secure(), nothingOutside,
		csrf.EnsureTokenCookie(false), middleware.CSRFWithConfig(csrf.MiddlewareConfig(c, false)))
	route.SetHealthRoute(e)

	forwarded := []api.Middleware{headers.WithForwardHeaders([]string{"Caller-Type"})}
	g := e.Group("/api/v1")
	g.GET("/settings", api.GetSettings(c))
	g.GET("/releases", func(c echo.Context) error { // the original asks GitHub
		return c.JSON(http.StatusOK, api.LatestReleasesResponse{Releases: map[string]string{}})
	})
	g.GET("/ui-extensions", api.GetUIExtensions(c, api.TemporalAccessCheck(conn, forwarded)))
	g.GET(api.WorkflowRawHistoryUrl, api.WorkflowRawHistoryHandler(workflowservice.NewWorkflowServiceClient(conn)))
	g.Any("/*", api.TemporalAPIHandler(c, forwarded, conn))

	if err := route.SetUIRoutes(e, "", files, c); err != nil {
		return nil, err
	}
	route.SetRenderRoute(e, "/")
	return e, nil
}

// nothingOutside lets the pages talk to this server only, whatever they are told: news, feedback, codec servers. It
// adds to the policy that the pages bring with them.
func nothingOutside(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Response().Before(func() {
			c.Response().Header().Add("Content-Security-Policy", "connect-src 'self'; frame-ancestors 'none'")
		})
		return next(c)
	}
}

// onlyLoopbackHosts refuses requests for another host name. A page of a stranger can make its own name resolve to
// 127.0.0.1, and would then be of the same origin as the UI.
func onlyLoopbackHosts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := (&url.URL{Host: r.Host}).Hostname()
		if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
			http.Error(w, fmt.Sprintf("%q is not a name of this server", r.Host), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// stop closes the listener and every connection, and returns what ended the server when it was not this.
func (u *ui) stop() error {
	return errors.Join(u.server.Close(), <-u.served, u.conn.Close())
}
