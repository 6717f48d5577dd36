package mcpclient

import (
	"cmp"

	"countersign/registry"
)

// advise adds a next step to a fault that has none.
func advise(fault *registry.Error) *registry.Error {
	if fault.Next == "" {
		fault.Next = nextStep(fault)
	}
	return fault
}

// nextStep is what people can do. Of a list that is not to be had it goes by
// the cause.
func nextStep(fault *registry.Error) string {
	reason := fault.Reason
	inLists := fault.Fact("phase") == "lists"
	switch reason = registry.Reason(cmp.Or(fault.Fact("cause"), string(reason))); {
	case reason == registry.ReasonTimeout && fault.Fact("phase") == "connect":
		return "see that the server runs, and that a firewall lets us through to it"
	case reason == registry.ReasonTimeout && inLists:
		return "look at the server's log: it does not answer in time"
	case reason == registry.ReasonTimeout:
		return "look at the server's log; if it needs longer to begin, allow it more time"
	case reason == registry.ReasonSlow && inLists:
		return "the server is alive; let it answer faster, or offer less"
	case reason == registry.ReasonSlow:
		return "the server is alive; let it answer faster, or allow it more time"
	case reason == registry.ReasonUnreachable && fault.Fact("phase") == "connect":
		return "see that the server runs and listens at this address"
	}
	if step, ok := nextSteps[reason]; ok {
		return step
	}
	return "look at the server's log"
}

var nextSteps = map[registry.Reason]string{
	registry.ReasonUnreachable:        "look at the server's log, and at what stands between it and us",
	registry.ReasonDNS:                "correct the host name",
	registry.ReasonTLS:                "let the server speak TLS 1.2 or newer, with a valid certificate",
	registry.ReasonRedirected:         "register the address that the server has itself",
	registry.ReasonRateLimited:        "leave the server alone until then",
	registry.ReasonUnsupportedVersion: "bring the server to a protocol version that both speak",
	registry.ReasonProtocolError:      "mend the server: it breaks the protocol",
	registry.ReasonTooLarge:           "let the server offer less, or in smaller pages",
	registry.ReasonTooMany:            "let the server offer less",
	registry.ReasonCursorLoop:         "mend the server's cursors: the last page has none",
	registry.ReasonMalformedList:      "mend the server's list",
}
