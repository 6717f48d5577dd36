package outbound

import (
	"testing"

	"countersign/registry"
)

// TestTheSocketIsCheckedAgain: the last look does not trust what came before.
func TestTheSocketIsCheckedAgain(t *testing.T) {
	t.Parallel()
	g := NewGuard(Options{})
	for _, tt := range []struct {
		network, address string
		pass             bool
	}{
		{"tcp4", "93.184.216.34:443", true},
		{"tcp6", "[2606:2800:220:1:248:1893:25c8:1946]:443", true},
		{"tcp6", "[::ffff:93.184.216.34]:443", true},
		{"tcp4", "127.0.0.1:80", false},
		{"tcp6", "[::ffff:127.0.0.1]:80", false},
		{"tcp6", "[fe80::1%eth0]:80", false},
		{"udp4", "93.184.216.34:53", false},
		{"unix", "/var/run/docker.sock", false},
		{"tcp4", "nonsense", false},
	} {
		err := g.control(t.Context(), tt.network, tt.address, nil)
		if (err == nil) != tt.pass {
			t.Errorf("%s %s: %v", tt.network, tt.address, err)
		}
		if err != nil && registry.ReasonOf(err) != registry.ReasonBlockedAddress {
			t.Errorf("%s %s: reason %s", tt.network, tt.address, registry.ReasonOf(err))
		}
	}
}
