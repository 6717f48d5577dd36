//go:build linux

package main

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// network tries to reach others: over the network, over sockets of services, and
// by kinds of sockets that lead past a network of one's own. An address with a
// slash in it is a socket; one that begins with @ is one without a file.
func network(addresses []string) []attempt {
	var out []attempt
	for _, address := range append([]string{
		"169.254.169.254:80", "[fd00:ec2::254]:80", "127.0.0.1:22", "127.0.0.1:5432", "127.0.0.1:7233", "1.1.1.1:53",
		"/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock", "/run/dbus/system_bus_socket", "/run/systemd/private",
		"/var/run/postgresql/.s.PGSQL.5432", "/tmp/.s.PGSQL.5432",
	}, addresses...) {
		kind := "tcp"
		if address[0] == '/' || address[0] == '@' {
			kind = "unix"
		}
		out = append(out, attempt{"connect to " + address, func() (string, error) {
			conn, err := net.DialTimeout(kind, address, time.Second) //nolint:noctx // it waits a second
			if err == nil {
				_ = conn.Close()
			}
			return "connected", err
		}})
	}
	for name, family := range map[string]int{
		"of virtual machines": unix.AF_VSOCK, "of packets": unix.AF_PACKET, "of the kernel's cryptography": unix.AF_ALG,
		"of Bluetooth": unix.AF_BLUETOOTH, "of keys": unix.AF_KEY, "of RDS": unix.AF_RDS,
	} {
		out = append(out, attempt{"make a socket " + name, func() (string, error) {
			fd, err := unix.Socket(family, unix.SOCK_RAW, 0)
			if err != nil && err != unix.EAFNOSUPPORT && err != unix.EPERM {
				fd, err = unix.Socket(family, unix.SOCK_STREAM, 0)
			}
			if err == nil {
				_ = unix.Close(fd)
			}
			return "made", err
		}})
	}
	return append(out, attempt{"send into the network", func() (string, error) {
		conn, err := net.Dial("udp", "8.8.8.8:53") //nolint:noctx // it sends nothing yet
		if err == nil {
			_, err = conn.Write([]byte("out"))
			_ = conn.Close()
		}
		return "sent", err
	}})
}
