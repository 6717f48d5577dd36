package embedded

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
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

// next is where the search for a free port goes on. Processes and servers that start in one moment begin at different
// places, since between the try and the server's own listening somebody else's try would succeed, too.
var next atomic.Uint32

func init() { next.Store(uint32(os.Getpid()) * portsOfServer) } //nolint:gochecknoinits // no server has a say in where the search begins

// portsOfServer is how many ports a server looks for: three of its services, the frontend and the UI, and some spare.
const portsOfServer = 8

// freePort finds a port of ip that nobody listens on.
func freePort(ip netip.Addr) (netip.AddrPort, error) {
	var err error
	for range 100 {
		port := firstPort + next.Add(1)%(lastPort-firstPort)
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
