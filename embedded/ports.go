package embedded

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
)

// Temporal opens its own listeners, so a port can only be tried and then given to it. Ours come from below the
// range that Linux hands out by itself (32768 and up), where nobody who asks for "any port" takes one meanwhile.
const firstPort, lastPort = 20000, 32000

// loopback parses a host:port whose host must be "localhost" or a loopback address.
func loopback(listen string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is no IP address: use 127.0.0.1 or ::1", host)
	}
	if !ip.IsLoopback() {
		return netip.AddrPort{}, fmt.Errorf("%s is not loopback, and this server authenticates nobody", listen)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is no port", port)
	}
	return netip.AddrPortFrom(ip, uint16(number)), nil
}

// choose returns the address to listen on: listen itself when its port is free, another port for port 0.
func choose(listen string) (netip.AddrPort, error) {
	address, err := loopback(listen)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if address.Port() == 0 {
		return freePort(address.Addr())
	}
	return address, try(address)
}

// freePort finds a port of ip that nobody listens on.
func freePort(ip netip.Addr) (netip.AddrPort, error) {
	var err error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort) //nolint:gosec // G404: a port is no secret
		address := netip.AddrPortFrom(ip, uint16(port))
		if err = try(address); err == nil {
			return address, nil
		}
	}
	return netip.AddrPort{}, fmt.Errorf("no free port: %w", err)
}

func try(address netip.AddrPort) error {
	l, err := net.Listen("tcp", address.String())
	if err != nil {
		return err
	}
	return l.Close()
}
