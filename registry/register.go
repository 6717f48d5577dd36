package registry

import (
	"fmt"
	"net/netip"
	"time"
)

// Registration is what somebody asks to register (R9, R10).
type Registration struct {
	TenantID            string            `json:"tenantId"`
	ServerID            string            `json:"serverId"` // made by the caller, so that a repeat names the same server
	Name                string            `json:"name"`
	Direction           Direction         `json:"direction"`
	Transport           Transport         `json:"transport"`
	URL                 string            `json:"url"`
	DialAddress         string            `json:"dialAddress,omitempty"`
	ConnectionName      string            `json:"connectionName,omitempty"` // instead of a URL; the newest version is pinned
	Connection          *Connection       `json:"-"`                        // what ConnectionName names, once it was looked up
	CommandRef          string            `json:"commandRef,omitempty"`
	Command             *Command          `json:"-"` // what CommandRef names, once it was looked up
	Authentication      Authentication    `json:"authentication"`
	ExceptionReason     string            `json:"exceptionReason,omitempty"`
	GovernancePolicyRef string            `json:"governancePolicyRef"`
	ProtocolVersion     string            `json:"protocolVersion"`
	ReleaseID           string            `json:"releaseId,omitempty"`
	Description         string            `json:"description,omitempty"`
	Owner               string            `json:"owner,omitempty"`
	Labels              map[string]string `json:"labels,omitempty"`
	ProductVersion      string            `json:"productVersion,omitempty"`
	// ProviderID is the provider whose extension declares the server; empty: the
	// server gets one of its own.
	ProviderID string `json:"providerId,omitempty"`
}

// PolicyDefault is the built-in governance policy bundle.
const PolicyDefault = "default"

// Installation holds the options of this installation that decide what may be
// registered.
type Installation struct {
	AllowNoneExceptions bool           // AllowNoneAuthenticationExceptions (R23); not reloadable
	ConnectionNetworks  []netip.Prefix // those that connections may open, or parts of them; none when empty
	OwnIssuer           bool           // the installation has an issuer of its own, whose tokens stand for its connections
	RegistrationIssuers []string       // at which clients may be registered for connections without a client id; none when empty
}

// Check says everything that is wrong with a registration, before anything is
// written or dialled. Rules that the API's schema can say are there as well.
func (g Registration) Check(inst Installation) error {
	e := Errorf(ReasonInvalidArgument, "the registration is not valid")
	if !ValidName(g.Name) {
		e.WithField("name", "must be 1 to 63 of a-z, 0-9, '_' and '-', beginning and ending with a letter or digit")
	} else if ValidServerID(g.Name) {
		e.WithField("name", "has the form of a server id")
	}
	if g.Direction != DirectionConsumed && g.Direction != DirectionExposed {
		e.WithField("direction", "must be consumed or exposed")
	}
	switch g.Transport {
	case TransportStreamableHTTP:
		if g.CommandRef != "" {
			e.WithField("command_ref", "is only for transport stdio")
		}
		if err := g.checkAddress(e); err != nil {
			return err
		}
	case TransportStdio:
		g.checkStdio(e)
	default:
		e.WithField("transport", "must be streamable_http or stdio")
	}
	if err := checkTrust(e, "", g.Authentication, g.ExceptionReason, g.GovernancePolicyRef, inst); err != nil {
		return err
	}
	if g.ProtocolVersion == "" {
		e.WithField("protocol_version", "is required")
	}
	checkDetails(e, g.Description, g.Owner, g.ProductVersion, g.Labels)
	if len(e.Fields) > 0 {
		return e
	}
	return nil
}

// checkAddress wants one of a URL and a connection (C10). A secret in the URL is
// an error of its own.
func (g Registration) checkAddress(e *Error) error {
	if g.ConnectionName != "" {
		if !ValidName(g.ConnectionName) || ValidServerID(g.ConnectionName) {
			e.WithField("endpoint_ref", "is no name of a connection")
		}
		if g.URL != "" {
			e.WithField("endpoint_url", "is the connection's to say")
		}
		if g.DialAddress != "" {
			e.WithField("dial_address", "is the connection's to say")
		}
		return nil
	}
	if err := CheckEndpoint(g.URL); err != nil {
		if ReasonOf(err) == ReasonSecretInRequest {
			return err
		}
		e.WithField("endpoint_url", "%s", err.Error())
	}
	if err := CheckDialAddress(g.DialAddress); err != nil {
		e.WithField("dial_address", "%s", err.Error())
	}
	return nil
}

// checkStdio applies C9, C10 and C11.
func (g Registration) checkStdio(e *Error) {
	switch {
	case g.CommandRef == "":
		e.WithField("command_ref", "is required for transport stdio")
	case !ValidName(g.CommandRef):
		e.WithField("command_ref", "is no name of a command")
	}
	if g.URL != "" {
		e.WithField("endpoint_url", "is not for transport stdio")
	}
	if g.DialAddress != "" {
		e.WithField("dial_address", "is not for transport stdio")
	}
	if g.ConnectionName != "" {
		e.WithField("endpoint_ref", "is not for transport stdio")
	}
	if g.Direction == DirectionExposed {
		e.WithField("direction", "a server that we offer to others is not of transport stdio")
	}
	if g.Authentication == AuthOAuth2 {
		e.WithField("authentication", "must be workload_identity or none_exception for transport stdio")
	}
}

func checkDetails(e *Error, description, owner, product string, labels map[string]string) {
	if len(description) > MaxDescriptionLength {
		e.WithField("description", "longer than %d bytes", MaxDescriptionLength)
	}
	if len(owner) > MaxLabelValueLength {
		e.WithField("owner", "longer than %d bytes", MaxLabelValueLength)
	}
	if len(product) > MaxLabelValueLength {
		e.WithField("product_version", "longer than %d bytes", MaxLabelValueLength)
	}
	if len(labels) > MaxLabels {
		e.WithField("labels", "more than %d", MaxLabels)
	}
	for _, key := range sortedKeys(labels) {
		if !labelPattern.MatchString(key) {
			e.WithField(fmt.Sprintf("labels[%q]", key), "the key must be 1 to %d of A-Z, a-z, 0-9, '.', '_', '/' and '-'", MaxLabelKeyLength)
		}
		if len(labels[key]) > MaxLabelValueLength {
			e.WithField(fmt.Sprintf("labels[%q]", key), "the value is longer than %d bytes", MaxLabelValueLength)
		}
	}
}

// Registered makes the record of a new server, its provider unless the
// registration names one, and what its target needs: a connection, or the command.
// It lands in registered, whatever a
// handshake will say (R5).
func Registered(g Registration, actor Actor, now time.Time) (*Record, Provider) {
	provider := Provider{
		TenantID: g.TenantID, ProviderID: ownProvider(g.ServerID), Name: g.Name, Family: FamilyMCP, Enabled: true, CreatedAt: now,
		CreatedBy: actor.Subject, Version: 1,
	}
	if g.ProviderID != "" {
		provider.ProviderID = g.ProviderID
	}
	r := &Record{Server: Server{
		ServerID: g.ServerID, TenantID: g.TenantID, Name: g.Name, Direction: g.Direction, Transport: g.Transport,
		Authentication: g.Authentication, GovernancePolicyRef: g.GovernancePolicyRef, ProtocolVersion: g.ProtocolVersion,
		State: StateRegistered, ReleaseID: g.ReleaseID, ProviderID: provider.ProviderID, Description: g.Description,
		Owner: g.Owner, Labels: g.Labels, ProductVersion: g.ProductVersion,
		Exception: Exception{Reason: g.ExceptionReason},
		Review:    Review{Status: ReviewNone},
		CreatedAt: now, CreatedBy: actor.Subject,
	}}
	r.Begin()
	s := &r.Server
	if g.Transport == TransportStdio {
		s.CommandRef = g.CommandRef
		r.Command, r.changes.Command = g.Command, g.Command
		s.Launch = Launch{Status: LaunchPending}
		s.Discovery = DiscoveryRun{Status: DiscoveryNever}
	} else {
		if g.Connection != nil {
			r.Connection = *g.Connection
		} else {
			r.Connection = Connection{
				TenantID: g.TenantID, Name: g.ServerID, Version: 1, URL: g.URL, DialAddress: g.DialAddress, AuthKind: AuthKindNone,
				Authentication: g.Authentication, CreatedAt: now, CreatedBy: actor.Subject,
			}
			r.changes.Connection = &r.Connection
		}
		s.EndpointRef = r.Connection.Ref()
		s.Discovery = DiscoveryRun{Number: 1, Status: DiscoveryRunning, RequestedBy: actor.Subject} // the first follows at once
	}
	if g.Direction == DirectionExposed {
		s.ExposedURL = r.Connection.URL
	}
	s.TargetDigest = TargetOf(s, r.Connection, r.Command).Digest()
	r.touch()
	r.note("registered")
	r.emit(EventServerRegistered, ServerRegistered{
		ServerID: g.ServerID, TenantID: g.TenantID, Direction: g.Direction, Transport: g.Transport, Authentication: g.Authentication,
	})
	return r, provider
}

// checkTrust checks how a server, or all those of a provider, authenticate and by
// which policy they are approved. Fields are told with the prefix.
func checkTrust(e *Error, prefix string, auth Authentication, reason, policy string, inst Installation) error {
	switch auth {
	case AuthOAuth2, AuthWorkloadIdentity:
		if reason != "" {
			e.WithField(prefix+"exception_reason", "is only for authentication none_exception")
		}
	case AuthNoneException:
		if !inst.AllowNoneExceptions {
			return Errorf(ReasonNoneExceptionForbidden, "this installation does not accept servers without authentication").
				WithNext("protect the server, or ask the operator to set allow_none_authentication_exceptions")
		}
		if reason == "" || len(reason) > MaxReasonLength {
			e.WithField(prefix+"exception_reason", "authentication none_exception needs a reason of 1 to %d bytes", MaxReasonLength)
		}
	default:
		e.WithField(prefix+"authentication", "must be oauth2_protected_resource, workload_identity or none_exception")
	}
	if _, err := ParsePolicyRef(policy); err != nil {
		e.WithField(prefix+"governance_policy_ref", "%s", err.Error())
	}
	return nil
}
