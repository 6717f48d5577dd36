package outbound

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"countersign/registry"
)

// Resolver turns a name into addresses; [net.Resolver] is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options say which addresses a [Guard] lets through and how it finds and
// trusts them.
type Options struct {
	// AllowNetworks are networks that may be dialled although they are not
	// public, such as 10.20.0.0/16 of an internal platform. An IPv4 network is
	// written as such, not as a mapped IPv6 one. Nothing else overrides the
	// deny list.
	AllowNetworks []netip.Prefix
	// Resolver replaces the system's name resolution; nil is the system's.
	Resolver Resolver
	// RootCAs replaces the system's certificate authorities; nil is the system's.
	RootCAs *x509.CertPool
}

// Guard decides which addresses may be dialled, and hands out HTTP clients that
// dial no others. It is safe for concurrent use.
type Guard struct {
	allow    []netip.Prefix
	deny     *ssrf.Guardian
	resolver Resolver
	rootCAs  *x509.CertPool
}

// hostAgents are public addresses that a cloud answers on its own hosts only,
// so the IANA registries do not list them: Azure's WireServer.
var hostAgents = netip.MustParsePrefix("168.63.129.16/32")

// maxAddresses is how many addresses of one name are tried.
const maxAddresses = 8

// NewGuard makes a guard. The deny list is everything in IANA's special-purpose
// registries and everything outside IPv6 global unicast (which covers NAT64,
// and with it the IPv4 addresses inside), by code.dny.dev/ssrf.
func NewGuard(o Options) *Guard {
	g := &Guard{
		deny:     ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(hostAgents)),
		resolver: o.Resolver,
		rootCAs:  o.RootCAs,
	}
	for _, network := range o.AllowNetworks {
		g.allow = append(g.allow, network.Masked())
	}
	if g.resolver == nil {
		g.resolver = net.DefaultResolver
	}
	return g
}

// Check says whether the address may be dialled. The error has the reason
// blocked_address.
//
// An IPv4 address in IPv6 clothes (::ffff:a.b.c.d) passes only by the list of
// allowed networks: no honest server is written like that.
func (g *Guard) Check(addr netip.Addr) error {
	plain := addr.WithZone("").Unmap()
	if slices.ContainsFunc(g.allow, func(p netip.Prefix) bool { return p.Contains(plain) }) {
		return nil
	}
	if plain.IsValid() && !addr.Is4In6() && g.deny.SafeAddr(plain) == nil {
		return nil
	}
	return blocked(addr.String(), "the address %s is not a public one", addr)
}

// private refuses to speak plain HTTP to an address that no allowed network has:
// everybody on the way could read along, credentials too.
func (g *Guard) private(ctx context.Context, addr netip.Addr) error {
	if ctx.Value(schemeKey{}) != "http" || slices.ContainsFunc(g.allow, func(p netip.Prefix) bool { return p.Contains(addr.WithZone("").Unmap()) }) {
		return nil
	}
	return registry.Errorf(registry.ReasonBlockedAddress, "the address %s is public, and plain HTTP is not spoken there", addr).
		With("address", addr.String()).WithNext("use https://, or ask the operator to allow the network for outbound connections")
}

func blocked(address, format string, args ...any) *registry.Error {
	return registry.Errorf(registry.ReasonBlockedAddress, format, args...).
		With("address", address).
		WithNext("use a public address, or ask the operator to allow its network for outbound connections")
}

// control is the last look, at the socket that is about to connect.
func (g *Guard) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return blocked(address, "connections over %s are not allowed", network)
	}
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return blocked(Excerpt(address, 100), "the address cannot be read")
	}
	// The kernel reports IPv4 as mapped on some sockets; that is not the
	// caller's spelling any more.
	return g.Check(target.Addr().Unmap())
}

// dial connects to a host and port. Every address of the host is checked before
// the first is tried; timeout bounds one attempt.
func (g *Guard) dial(ctx context.Context, address string, timeout time.Duration) (net.Conn, error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, registry.Errorf(registry.ReasonUnreachable, "the address %s cannot be read", Excerpt(address, 100)).
			With("phase", "connect")
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil || port == 0 {
		return nil, registry.Errorf(registry.ReasonUnreachable, "%s is no port", Excerpt(service, 20)).With("phase", "connect")
	}
	addrs, err := g.resolve(ctx, host, timeout)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{ControlContext: g.control}
	for i, addr := range addrs {
		at := netip.AddrPortFrom(addr, uint16(port)).String()
		var conn net.Conn
		conn, err = dialOne(ctx, &dialer, at, share(ctx, timeout, len(addrs)-i))
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
	}
	return nil, err
}

func dialOne(ctx context.Context, dialer *net.Dialer, address string, timeout time.Duration) (net.Conn, error) {
	attempt, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := dialer.DialContext(attempt, "tcp", address)
	switch {
	case err == nil:
		return conn, nil
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, ctx.Err()
	case attempt.Err() != nil:
		return nil, registry.Errorf(registry.ReasonTimeout, "%s did not accept a connection in time", address).
			With("phase", "connect").With("address", address)
	}
	if known, ok := registry.AsError(err); ok {
		return nil, known
	}
	return nil, registry.Errorf(registry.ReasonUnreachable, "no connection to %s: %s", address, connectFault(err)).
		With("phase", "connect").With("address", address)
}

// share divides what is left of the caller's time among the addresses that are
// left, so that a dead first address does not use it up.
func share(ctx context.Context, timeout time.Duration, left int) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok || left < 2 {
		return timeout
	}
	return min(timeout, max(time.Until(deadline)/time.Duration(left), 500*time.Millisecond))
}

// resolve gives the addresses of a host, all of them checked, in the order in
// which the resolver prefers them.
func (g *Guard) resolve(ctx context.Context, host string, timeout time.Duration) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		if err := g.Check(addr); err != nil {
			return nil, err
		}
		return []netip.Addr{addr}, g.private(ctx, addr)
	}
	if endsInNumber(host) {
		return nil, blocked(Excerpt(host, 100), "the host %s is a number in a form that programs read differently", Excerpt(host, 100))
	}
	lookup, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	addrs, err := g.resolver.LookupNetIP(lookup, "ip", host)
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, ctx.Err()
	}
	if err != nil || len(addrs) == 0 {
		return nil, registry.Errorf(registry.ReasonDNS, "the name %s does not resolve: %s", Excerpt(host, 260), lookupFault(lookup, err)).
			With("phase", "dns").With("host", Excerpt(host, 260))
	}
	for i, addr := range addrs {
		// The resolver hands out IPv4 in IPv6 clothes on its own account.
		addrs[i] = addr.Unmap()
		if err := g.Check(addrs[i]); err != nil {
			return nil, blocked(addrs[i].String(), "the name %s leads to %s, which is not a public address", Excerpt(host, 260), addrs[i])
		}
		if err := g.private(ctx, addrs[i]); err != nil {
			return nil, err
		}
	}
	return addrs[:min(len(addrs), maxAddresses)], nil
}

// endsInNumber says whether the last label of the host is a number, decimal or
// hexadecimal. Such a host is an IPv4 address to some programs (2130706433,
// 0177.0.0.1, 0x7f.1, 127.1) and a name to others; addresses in the usual form
// were read before.
func endsInNumber(host string) bool {
	host = strings.TrimSuffix(host, ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	if rest, ok := strings.CutPrefix(strings.ToLower(last), "0x"); ok {
		return strings.Trim(rest, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}
