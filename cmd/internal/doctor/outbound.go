package doctor

import (
	"net/netip"
	"strings"

	"countersign/outbound"
)

// hostServices are addresses where clouds answer who is on their machines, with
// credentials.
var hostServices = []string{"169.254.169.254", "fd00:ec2::254", "168.63.129.16", "100.100.100.200"}

// outbound says where servers may be, and whether what must never be one may.
func (x *examination) outbound() {
	allowed, err := x.conf.Networks()
	if err != nil {
		x.failed("outbound", "correct outbound.allow_networks", err)
		return
	}
	opened, err := x.conf.ConnectionNetworks()
	if err != nil {
		x.failed("outbound", "correct outbound.connection_networks", err)
		return
	}
	for _, part := range []struct {
		key      string
		networks []netip.Prefix
	}{{"outbound.allow_networks", allowed}, {"outbound.connection_networks", opened}} {
		guard := outbound.NewGuard(outbound.Options{AllowNetworks: part.networks})
		for _, address := range hostServices {
			if guard.Check(netip.MustParseAddr(address)) == nil {
				x.failf("outbound", "narrow "+part.key+" to the networks of your own servers",
					"%s admits %s, where clouds hand out credentials of this machine", part.key, address)
				return
			}
		}
		for _, network := range part.networks {
			if network.Addr().Is4() && network.Bits() < 8 || network.Addr().Is6() && network.Bits() < 16 {
				x.warnf("outbound", "narrow it to the networks of your own servers", "%s has %s, which is nearly everything", part.key, network)
				return
			}
		}
	}
	if len(allowed) == 0 {
		x.okf("outbound", "public addresses only")
	} else {
		x.okf("outbound", "public addresses, and %s", strings.Join(x.conf.Outbound.AllowNetworks, ", "))
	}
	if x.conf.AllowNoneAuthenticationExceptions {
		x.warnf("authentication", "set allow_none_authentication_exceptions to false once no server needs it",
			"servers without authentication can be registered; an administrator of the platform has to approve each")
	}
}
