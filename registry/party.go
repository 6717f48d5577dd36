package registry

// Party is who can do something about a server's health: a role of the tenant,
// or somebody outside of the registry.
type Party string

// The parties.
const (
	PartyAdmin              = Party(RolePlatformAdmin)
	PartyMaintainer         = Party(RoleAssetMaintainer)
	PartyOperator           = Party(RoleOperator)
	PartyServer       Party = "server_operator"       // who runs the MCP server
	PartyInstallation Party = "installation_operator" // who runs this installation
)

// Parties lists all of them.
func Parties() []Party {
	return []Party{PartyAdmin, PartyMaintainer, PartyOperator, PartyServer, PartyInstallation}
}

var (
	byDiscoverers = []Party{PartyOperator, PartyMaintainer, PartyAdmin}
	byGovernors   = []Party{PartyMaintainer, PartyAdmin}
	byAdmins      = []Party{PartyAdmin}
	byServer      = []Party{PartyServer}
	byOperators   = []Party{PartyInstallation}
)

// remedy is what people can do, and which of them.
type remedy struct {
	next string
	who  []Party
}

// remedyOf is what people can do about a server that cannot be discovered or
// probed.
func remedyOf(reason Reason) remedy {
	switch reason { //nolint:exhaustive // the others have nothing better than the last line
	case ReasonBlockedAddress:
		return remedy{"Give it an address that may be dialled, or have the operator add its network to outbound.allow_networks", []Party{PartyMaintainer, PartyAdmin, PartyInstallation}}
	case ReasonAuthRequired, ReasonForbidden:
		return remedy{"Register it with the authentication that it asks for", byGovernors}
	case ReasonTLS:
		return remedy{"Renew its certificate, or use the name that the certificate is for", []Party{PartyServer, PartyMaintainer, PartyAdmin}}
	case ReasonUnknownCommand:
		return remedy{"Have the operator put the command back on the allow-list, or take another one", []Party{PartyInstallation, PartyMaintainer, PartyAdmin}}
	case ReasonCommandChanged:
		return remedy{"Take the command as it is now and approve its launch", byAdmins}
	case ReasonLaunchPending:
		return remedy{"A platform administrator approves the launch", byAdmins}
	case ReasonProcessLimit:
		return remedy{"Look at what the server does; if it needs that much, have the operator raise the limits of its command", []Party{PartyServer, PartyInstallation}}
	case ReasonSandboxUnavailable:
		return remedy{"Have the operator install bubblewrap where the worker runs", byOperators}
	case ReasonSlow, ReasonTimeout:
		return remedy{"Make the server answer faster, or have the operator raise handshake_timeout_seconds", []Party{PartyServer, PartyInstallation}}
	case ReasonDNS:
		return remedy{"Correct the host name", byGovernors}
	case ReasonNotMCP, ReasonRedirected:
		return remedy{"Correct the URL: it must be the MCP endpoint itself", byGovernors}
	case ReasonUnsupportedVersion:
		return remedy{"Bring the server to a protocol version that both speak", byServer}
	case ReasonQuotaExceeded:
		return remedy{"Retire servers that nobody needs, or have the operator raise the tenant's quota", []Party{PartyMaintainer, PartyAdmin, PartyInstallation}}
	case ReasonTooLarge, ReasonTooMany, ReasonCursorLoop, ReasonMalformedList, ReasonListFailed, ReasonProtocolError:
		return remedy{"Mend the server's answers", byServer}
	case ReasonRateLimited:
		return remedy{"Wait, or have the server allow more requests", byServer}
	case ReasonDependency:
		return remedy{"See that the secret store and the connection's issuer answer; the server is not at fault", byOperators}
	case ReasonSecretRefUnresolved:
		return remedy{"Have the operator put the secret where its reference says", byOperators}
	}
	if reason.ours() {
		return remedy{"Correct the connection, or what its issuer knows of it; the server is not at fault", []Party{PartyMaintainer, PartyAdmin, PartyInstallation}}
	}
	return remedy{"Mend the server or its address", []Party{PartyServer, PartyMaintainer, PartyAdmin}}
}
