package registry

import "slices"

// Reason is a stable lower_snake code: in errors, denials, health, quarantine,
// probe outcomes and events. Reasons are API: never renamed, never reused.
type Reason string

// Requests.
const (
	ReasonInternal                Reason = "internal"
	ReasonInvalidArgument         Reason = "invalid_argument"
	ReasonIdempotencyKeyRequired  Reason = "idempotency_key_required"
	ReasonIdempotencyKeyReused    Reason = "idempotency_key_reused"
	ReasonInvalidPageToken        Reason = "invalid_page_token"
	ReasonInvalidFilter           Reason = "invalid_filter"
	ReasonInvalidOrder            Reason = "invalid_order_by"
	ReasonUnknownField            Reason = "unknown_field"
	ReasonBodyTooLarge            Reason = "body_too_large"
	ReasonNoSuchOperation         Reason = "no_such_operation"
	ReasonMethodNotAllowed        Reason = "method_not_allowed"
	ReasonUnsupportedMediaType    Reason = "unsupported_media_type"
	ReasonUnauthenticated         Reason = "unauthenticated"
	ReasonPermissionDenied        Reason = "permission_denied"
	ReasonServerNotFound          Reason = "server_not_found"
	ReasonServerExists            Reason = "server_already_exists"
	ReasonStaleEtag               Reason = "stale_etag"
	ReasonSuperseded              Reason = "superseded"
	ReasonAlreadyDecided          Reason = "already_decided"
	ReasonNothingToReview         Reason = "nothing_to_review"
	ReasonApprovalNotFound        Reason = "approval_not_found"
	ReasonNothingToWithdraw       Reason = "nothing_to_withdraw"
	ReasonNothingDiscovered       Reason = "nothing_discovered"
	ReasonNothingApproved         Reason = "nothing_approved"
	ReasonSnapshotNotFound        Reason = "snapshot_not_found"
	ReasonUnknownTool             Reason = "unknown_tool"
	ReasonUnknownResource         Reason = "unknown_resource"
	ReasonUnknownPrompt           Reason = "unknown_prompt"
	ReasonUnknownPolicy           Reason = "unknown_policy"
	ReasonInvalidPolicy           Reason = "invalid_policy"
	ReasonCommentRequired         Reason = "comment_required"
	ReasonRequesterApproves       Reason = "requester_may_not_approve"
	ReasonNotEligible             Reason = "approver_not_eligible"
	ReasonToolQuarantined         Reason = "tool_quarantined"
	ReasonDescriptorNotPublished  Reason = "descriptor_not_published"
	ReasonDescriptorClassMismatch Reason = "descriptor_class_mismatch"
	ReasonDescriptorNotFound      Reason = "descriptor_not_found"
	ReasonDescriptorStatus        Reason = "descriptor_status"
	ReasonAssignmentNotFound      Reason = "assignment_not_found"
	ReasonAuditEventNotFound      Reason = "audit_event_not_found"
	ReasonIllegalTransition       Reason = "illegal_transition"
	ReasonNoneExceptionForbidden  Reason = "none_exception_forbidden"
	ReasonExceptionRequired       Reason = "exception_required"
	ReasonExceptionExpiry         Reason = "exception_expiry_invalid"
	ReasonSecretInRequest         Reason = "secret_in_request"
	ReasonSecretRefInvalid        Reason = "secret_reference_invalid"
	ReasonSecretRefUnresolved     Reason = "secret_reference_unresolved"
	ReasonConnectionNotFound      Reason = "connection_not_found"
	ReasonSubscriptionNotFound    Reason = "subscription_not_found"
	ReasonSubscriptionExists      Reason = "subscription_already_exists"
	ReasonConnectionExists        Reason = "connection_already_exists"
	ReasonConnectionInUse         Reason = "connection_in_use"
	ReasonConnectionShared        Reason = "connection_shared"
	ReasonConnectionOwned         Reason = "connection_owned"
	ReasonAuthKindUnsupported     Reason = "auth_kind_unsupported"
	ReasonTransportUnsupported    Reason = "transport_unsupported"
	ReasonSandboxUnavailable      Reason = "sandbox_unavailable"
	ReasonProcessLimit            Reason = "process_limit"
	ReasonUnknownCommand          Reason = "unknown_command"
	ReasonCommandNotPinned        Reason = "command_not_pinned"
	ReasonCommandInline           Reason = "command_inline_code"
	ReasonCommandVariable         Reason = "command_variable"
	ReasonCommandChanged          Reason = "command_changed"
	ReasonLaunchPending           Reason = "launch_pending"
	ReasonNoLaunch                Reason = "no_launch"
	ReasonUnsignedSignal          Reason = "unsigned_signal"
	ReasonMalformedSignal         Reason = "malformed_signal"
	ReasonTokenUnknown            Reason = "decision_token_unknown"
	ReasonTokenUsed               Reason = "decision_token_used"
	ReasonTokenExpired            Reason = "decision_token_expired"
	ReasonTokenMismatch           Reason = "decision_token_mismatch"
	ReasonPolicyExists            Reason = "policy_version_exists"
	ReasonPolicyNotFound          Reason = "policy_not_found"
	ReasonPolicyTests             Reason = "policy_tests_failed"
	ReasonPolicyUnbinds           Reason = "policy_would_unbind"
	ReasonConflictingWrite        Reason = "conflicting_write"
	ReasonBusy                    Reason = "busy"
	ReasonDependency              Reason = "dependency_error"
	ReasonDeadline                Reason = "deadline_exceeded"
	ReasonSchemaNewer             Reason = "schema_newer"
	ReasonSchemaOlder             Reason = "schema_older"
	ReasonRowSecurity             Reason = "row_security_off"
	ReasonServerClosing           Reason = "server_closing"
	ReasonTooManyRequests         Reason = "too_many_requests"
	ReasonQuotaExceeded           Reason = "quota_exceeded"
	ReasonWorkflowKeyUnknown      Reason = "workflow_key_unknown"
	ReasonNotRecorded             Reason = "not_recorded"
	ReasonStaleSnapshot           Reason = "snapshot_too_old"
	ReasonResumeTokenOutdated     Reason = "resume_token_outdated"
)

// Denials, in the order in which resolve reports them (requirements.md,
// Appendix B; R72).
const (
	ReasonToolNotFound         Reason = "tool_not_found"
	ReasonProviderDisabled     Reason = "tool_provider_disabled"
	ReasonServerRetired        Reason = "server_retired"
	ReasonAuthExceptionExpired Reason = "auth_exception_expired"
	ReasonServerQuarantined    Reason = "server_quarantined"
	ReasonServerDegraded       Reason = "server_degraded"
	ReasonServerNotActive      Reason = "server_not_active"
	ReasonToolDisabled         Reason = "tool_disabled"
	ReasonToolUnavailable      Reason = "tool_unavailable"
	ReasonApprovalExpired      Reason = "approval_expired"
	ReasonSchemaChanged        Reason = "schema_changed"
	ReasonToolUnbound          Reason = "tool_unbound"
	ReasonNotAssigned          Reason = "not_assigned"
	ReasonPolicyDenied         Reason = "policy_denied"
	ReasonPolicyError          Reason = "policy_error"
)

// What a handshake, a discovery or a probe can meet.
const (
	ReasonUnreachable        Reason = "unreachable"
	ReasonDNS                Reason = "dns"
	ReasonTLS                Reason = "tls"
	ReasonTimeout            Reason = "timeout"
	ReasonSlow               Reason = "slow"
	ReasonNotMCP             Reason = "not_mcp"
	ReasonRedirected         Reason = "redirected"
	ReasonAuthRequired       Reason = "auth_required"
	ReasonForbidden          Reason = "forbidden"
	ReasonRateLimited        Reason = "rate_limited"
	ReasonUnsupportedVersion Reason = "unsupported_version"
	ReasonCapabilityRequired Reason = "capability_required"
	ReasonProtocolError      Reason = "protocol_error"
	ReasonTooLarge           Reason = "too_large"
	ReasonTooMany            Reason = "too_many"
	ReasonCursorLoop         Reason = "cursor_loop"
	ReasonListFailed         Reason = "list_failed"
	ReasonMalformedList      Reason = "malformed_list"
	ReasonBlockedAddress     Reason = "blocked_address"
	ReasonAuthNotEnforced    Reason = "auth_not_enforced"
)

// What keeps us from a token for a server. None of them is the server's fault.
const (
	ReasonIssuerMismatch     Reason = "issuer_mismatch"
	ReasonInvalidMetadata    Reason = "issuer_metadata_invalid"
	ReasonInvalidClient      Reason = "invalid_client"
	ReasonUnsupportedGrant   Reason = "unsupported_grant"
	ReasonInvalidTarget      Reason = "invalid_target"
	ReasonInvalidScope       Reason = "invalid_scope"
	ReasonInvalidTokenAnswer Reason = "token_answer_invalid"
	ReasonAudienceMismatch   Reason = "audience_mismatch"
	ReasonKeyUnusable        Reason = "key_unusable"
)

// What a provider and its refresh can meet (requirements.md, Appendix A).
const (
	ReasonProviderNotFound     Reason = "provider_not_found"
	ReasonProviderExists       Reason = "provider_already_exists"
	ReasonProviderInUse        Reason = "provider_in_use"
	ReasonProviderFamily       Reason = "provider_family"
	ReasonExtensionUnreachable Reason = "extension_unreachable"
	ReasonProtocolIncompatible Reason = "protocol_incompatible"
	ReasonInvalidResponse      Reason = "invalid_response"
	ReasonIdentityMismatch     Reason = "extension_identity_mismatch"
	ReasonDescriptorInvalid    Reason = "aep_descriptor_invalid"
	ReasonMCPToolNotFound      Reason = "mcp_tool_not_found"
)

// Verdicts on one tool: it is visible and never bindable.
const (
	ReasonDuplicateName        Reason = "duplicate_name"
	ReasonInvalidSchema        Reason = "invalid_schema"
	ReasonUnsafeName           Reason = "unsafe_name"
	ReasonTooDeep              Reason = "too_deep"
	ReasonMalformedField       Reason = "malformed_field"
	ReasonAmbiguousKeys        Reason = "ambiguous_keys"
	ReasonIDCollision          Reason = "id_collision"
	ReasonRemoteRef            Reason = "remote_ref"
	ReasonInvalidHeaderMapping Reason = "invalid_header_mapping"
)

// What unbound a tool.
const (
	ReasonTargetChanged     Reason = "target_changed"
	ReasonPolicyChanged     Reason = "policy_changed"
	ReasonInconsistentLists Reason = "inconsistent_lists"
)

// reasons says for each reason which code it travels under and what it means.
// docs/reasons.md is generated from this table.
var reasons = map[Reason]struct {
	code  Code
	means string
}{
	ReasonInternal:                {CodeInternal, "something failed on our side; the id in the answer is in the log"},
	ReasonInvalidArgument:         {CodeInvalid, "a field of the request is missing or wrong; the answer names it"},
	ReasonIdempotencyKeyRequired:  {CodeInvalid, "Register and Discover need an Idempotency-Key header"},
	ReasonIdempotencyKeyReused:    {CodeKeyReused, "the idempotency key was used before with another body"},
	ReasonInvalidPageToken:        {CodeInvalid, "the page token is damaged or belongs to another list"},
	ReasonInvalidFilter:           {CodeInvalid, "the filter cannot be read"},
	ReasonInvalidOrder:            {CodeInvalid, "order_by names no sortable field"},
	ReasonUnknownField:            {CodeInvalid, "the request has a field that does not exist"},
	ReasonBodyTooLarge:            {CodeInvalid, "the request body is larger than the limit"},
	ReasonNoSuchOperation:         {CodeNotFound, "there is nothing at this path"},
	ReasonMethodNotAllowed:        {CodeInvalid, "the path exists, but not for this HTTP method"},
	ReasonUnsupportedMediaType:    {CodeInvalid, "the content type or encoding of the request is not one that is understood"},
	ReasonUnauthenticated:         {CodeUnauthenticated, "no bearer token, or one that is not known"},
	ReasonPermissionDenied:        {CodeForbidden, "the principal lacks a role or scope for this call"},
	ReasonServerNotFound:          {CodeNotFound, "the tenant has no such server"},
	ReasonServerExists:            {CodeAlreadyExists, "a live server of the tenant has this name"},
	ReasonStaleEtag:               {CodeAborted, "the server or connection changed since the etag was read"},
	ReasonSuperseded:              {CodeAborted, "the decision names a digest that is no longer under review"},
	ReasonAlreadyDecided:          {CodeAborted, "this digest was decided already"},
	ReasonNothingToReview:         {CodePrecondition, "no approval is pending"},
	ReasonApprovalNotFound:        {CodeNotFound, "the server was never at what this digest is of, so nobody asked for its approval"},
	ReasonNothingToWithdraw:       {CodePrecondition, "who asks has given no approval in the review that is open"},
	ReasonNothingDiscovered:       {CodePrecondition, "the server was never discovered"},
	ReasonNothingApproved:         {CodePrecondition, "nothing of the server was approved yet, so there is nothing to compare with"},
	ReasonSnapshotNotFound:        {CodeNotFound, "the tenant has no snapshot of this digest, or keeps it no longer"},
	ReasonUnknownTool:             {CodeInvalid, "the approval names a tool that the server does not offer"},
	ReasonUnknownResource:         {CodeInvalid, "the approval names a resource that the server does not offer"},
	ReasonUnknownPrompt:           {CodeInvalid, "the approval names a prompt that the server does not offer"},
	ReasonUnknownPolicy:           {CodeInvalid, "the governance policy bundle does not exist"},
	ReasonInvalidPolicy:           {CodeInvalid, "the governance policy bundle cannot be read or compiled; the answer names each fault"},
	ReasonCommentRequired:         {CodeInvalid, "the governance policy wants approvers of this to say why"},
	ReasonRequesterApproves:       {CodeForbidden, "the governance policy wants somebody else than who asked for the approval"},
	ReasonNotEligible:             {CodeForbidden, "the governance policy does not let this person approve this"},
	ReasonToolQuarantined:         {CodePrecondition, "the tool's definition is faulty, so it cannot be bound"},
	ReasonDescriptorNotPublished:  {CodePrecondition, "the named descriptor version is not published"},
	ReasonDescriptorClassMismatch: {CodePrecondition, "the named descriptor has another side-effect class"},
	ReasonDescriptorNotFound:      {CodeNotFound, "the tenant has no such descriptor version"},
	ReasonDescriptorStatus:        {CodePrecondition, "a descriptor version goes from draft to published to deprecated, and never back"},
	ReasonAssignmentNotFound:      {CodeNotFound, "the tenant has no such assignment"},
	ReasonAuditEventNotFound:      {CodeNotFound, "the tenant has no such audit event"},
	ReasonIllegalTransition:       {CodePrecondition, "the server's state does not allow this step"},
	ReasonNoneExceptionForbidden:  {CodePrecondition, "this installation does not allow servers without authentication"},
	ReasonExceptionRequired:       {CodePrecondition, "a server without authentication needs an exception: a platform administrator, a reason and an expiry"},
	ReasonExceptionExpiry:         {CodeInvalid, "the exception's expiry is missing or not in the future"},
	ReasonSecretInRequest:         {CodeInvalid, "the request holds what looks like a credential; secrets are references only"},
	ReasonSecretRefInvalid:        {CodeInvalid, "a secret is not given by a reference that can be read, such as env:NAME, file:NAME or vault:MOUNT/PATH#FIELD"},
	ReasonSecretRefUnresolved:     {CodePrecondition, "a secret that is needed is not where its reference says, or may not be used"},
	ReasonConnectionNotFound:      {CodeNotFound, "the tenant has no such connection"},
	ReasonSubscriptionNotFound:    {CodeNotFound, "the tenant has no such subscription of events"},
	ReasonSubscriptionExists:      {CodeAlreadyExists, "a subscription of the tenant has this id, and is another one"},
	ReasonConnectionExists:        {CodeAlreadyExists, "a connection of the tenant has this name"},
	ReasonConnectionInUse:         {CodePrecondition, "servers use the connection, so it cannot be deleted"},
	ReasonConnectionShared:        {CodePrecondition, "the server is reached by a connection with a name, so its address is changed there"},
	ReasonConnectionOwned:         {CodePrecondition, "the connection belongs to one server, which is changed instead"},
	ReasonAuthKindUnsupported:     {CodePrecondition, "this installation cannot authorise requests in the way that the connection asks for"},
	ReasonTransportUnsupported:    {CodePrecondition, "this installation cannot reach servers of this transport"},
	ReasonSandboxUnavailable:      {CodePrecondition, "no sandbox can be made here, so the server's command is not started"},
	ReasonProcessLimit:            {CodePrecondition, "the server's process used more memory, processes or threads than it may, and was ended"},
	ReasonUnknownCommand:          {CodePrecondition, "the operator's allow-list has no such command for this tenant"},
	ReasonCommandNotPinned:        {CodeInvalid, "a command of the configuration fetches what it runs when it is started, so nobody can approve it"},
	ReasonCommandInline:           {CodeInvalid, "a command of the configuration runs code that is given in its arguments or over its standard input, or runs another program"},
	ReasonCommandVariable:         {CodeInvalid, "a command of the configuration has a variable that changes which code its program runs"},
	ReasonCommandChanged:          {CodePrecondition, "the operator changed the command since the server took it"},
	ReasonLaunchPending:           {CodePrecondition, "the server's command is not started before a platform administrator approved exactly it"},
	ReasonNoLaunch:                {CodePrecondition, "the server is not started by a command, so there is no launch to approve"},
	ReasonUnsignedSignal:          {CodeForbidden, "a decision arrived as a signal without a decision token"},
	ReasonMalformedSignal:         {CodeInvalid, "a decision arrived as a signal that cannot be read"},
	ReasonTokenUnknown:            {CodeForbidden, "the tenant has no such decision token"},
	ReasonTokenUsed:               {CodeForbidden, "the decision token was used already"},
	ReasonTokenExpired:            {CodeForbidden, "the decision token is no longer good"},
	ReasonTokenMismatch:           {CodeForbidden, "the decision token is for another server, digest or decision"},
	ReasonPolicyExists:            {CodeAlreadyExists, "this version of the policy bundle, or a later one, is published, and versions never change"},
	ReasonPolicyNotFound:          {CodeNotFound, "the tenant has no such policy bundle"},
	ReasonPolicyTests:             {CodeInvalid, "tests of the policy bundle fail; the answer names each"},
	ReasonPolicyUnbinds:           {CodePrecondition, "the policy bundle would unbind something that is bound now, and the request does not allow that"},
	ReasonConflictingWrite:        {CodeAborted, "two writes met; the other one won"},
	ReasonBusy:                    {CodeExhausted, "too many changes of this server are under way"},
	ReasonDependency:              {CodeUnavailable, "a part that this needs (database, Temporal, secret store) is away"},
	ReasonDeadline:                {CodeDeadline, "the caller's time ran out; the work may go on"},
	ReasonSchemaNewer:             {CodePrecondition, "the database was migrated by a newer version"},
	ReasonSchemaOlder:             {CodePrecondition, "the database needs `countersign migrate up`"},
	ReasonRowSecurity:             {CodePrecondition, "the database would not keep tenants apart; `countersign` does not run like that"},
	ReasonServerClosing:           {CodeUnavailable, "the retired server's workflow is ending; at once again"},
	ReasonTooManyRequests:         {CodeExhausted, "the principal or its tenant calls more often than the installation allows; the answer says when to come back"},
	ReasonQuotaExceeded:           {CodePrecondition, "the tenant has as much as the installation lets it have"},
	ReasonNotRecorded:             {CodePrecondition, "the records of what could be called do not reach back to that time"},
	ReasonStaleSnapshot:           {CodeUnavailable, "what this process knows is older than the caller allows, and the database cannot be followed"},
	ReasonResumeTokenOutdated:     {CodePrecondition, "the resume token is of events that are kept no longer, or of a database that was restored since; begin without one, and read anew"},
	ReasonWorkflowKeyUnknown:      {CodeUnavailable, "workflow data is encrypted with a key that this process does not have"},

	ReasonToolNotFound:         {CodeNotFound, "the tenant has no tool of this id"},
	ReasonProviderDisabled:     {CodePrecondition, "the tool's provider is disabled"},
	ReasonServerRetired:        {CodePrecondition, "the server is retired"},
	ReasonAuthExceptionExpired: {CodePrecondition, "the exception that allows no authentication has expired"},
	ReasonServerQuarantined:    {CodePrecondition, "somebody quarantined the server"},
	ReasonServerDegraded:       {CodePrecondition, "the server is degraded"},
	ReasonServerNotActive:      {CodePrecondition, "the server is not active yet"},
	ReasonToolDisabled:         {CodePrecondition, "an administrator has not enabled the tool"},
	ReasonToolUnavailable:      {CodePrecondition, "the server does not offer the tool now, or offers it broken, or a capability that it needs is not available"},
	ReasonApprovalExpired:      {CodePrecondition, "the approval has expired"},
	ReasonSchemaChanged:        {CodePrecondition, "the tool or its target changed since it was approved"},
	ReasonToolUnbound:          {CodePrecondition, "the tool was never approved"},
	ReasonNotAssigned:          {CodePrecondition, "the agent does not have this tool"},
	ReasonPolicyDenied:         {CodePrecondition, "the governance policy refuses"},
	ReasonPolicyError:          {CodePrecondition, "the governance policy is missing or failed, and so refuses"},

	ReasonUnreachable:        {CodeRemote, "no connection to the server, or only the answer that it cannot serve now (5xx)"},
	ReasonDNS:                {CodeRemote, "the server's name does not resolve"},
	ReasonTLS:                {CodeRemotePermanent, "the server's certificate is not acceptable"},
	ReasonTimeout:            {CodeRemote, "the server did not answer in time"},
	ReasonSlow:               {CodeRemote, "the server keeps sending, but was not done in time"},
	ReasonNotMCP:             {CodeRemotePermanent, "something answers there, but not an MCP server"},
	ReasonRedirected:         {CodeRemotePermanent, "the server points elsewhere; redirects are not followed"},
	ReasonAuthRequired:       {CodeRemotePermanent, "the server wants credentials (it is alive)"},
	ReasonForbidden:          {CodeRemotePermanent, "the server refuses these credentials"},
	ReasonRateLimited:        {CodeRemote, "the server asks to come back later"},
	ReasonUnsupportedVersion: {CodeRemotePermanent, "no protocol version in common"},
	ReasonCapabilityRequired: {CodeRemotePermanent, "the server demands abilities of its client that we do not offer"},
	ReasonProtocolError:      {CodeRemotePermanent, "the server breaks the protocol"},
	ReasonTooLarge:           {CodeRemotePermanent, "a list, one of its pages or a tool is larger than the limit"},
	ReasonTooMany:            {CodeRemotePermanent, "the server offers more pages or items than the limit"},
	ReasonCursorLoop:         {CodeRemotePermanent, "the server's pages never end"},
	ReasonListFailed:         {CodeRemote, "the handshake is fine, but a list is not to be had"},
	ReasonMalformedList:      {CodeRemotePermanent, "a list is missing, null, no array, or holds an element that is no object or has no name"},
	ReasonBlockedAddress:     {CodeRemotePermanent, "the outbound guard forbids the server's address"},
	ReasonAuthNotEnforced:    {CodePrecondition, "the server is registered with an authentication, but answers without any"},

	ReasonIssuerMismatch:     {CodePrecondition, "metadata, an endpoint or a token belong to another issuer than the connection's; nothing was sent there"},
	ReasonInvalidMetadata:    {CodePrecondition, "the issuer's metadata are missing, or name URLs that must not be used"},
	ReasonInvalidClient:      {CodePrecondition, "the issuer does not know the connection's client, or does not take what shows that we are it"},
	ReasonUnsupportedGrant:   {CodePrecondition, "the issuer does not offer the connection's way to a token"},
	ReasonInvalidTarget:      {CodePrecondition, "the issuer gives no tokens for the server, or the server calls itself something else"},
	ReasonInvalidScope:       {CodePrecondition, "the issuer does not give the client the connection's scopes"},
	ReasonInvalidTokenAnswer: {CodePrecondition, "the issuer's answer to the request for a token cannot be used"},
	ReasonAudienceMismatch:   {CodePrecondition, "the issuer's token is not for this server, so it was not used"},
	ReasonKeyUnusable:        {CodePrecondition, "a private key that is to sign for us cannot be read, or is too weak"},

	ReasonProviderNotFound:     {CodeNotFound, "the tenant has no such provider"},
	ReasonProviderExists:       {CodeAlreadyExists, "a live provider of the tenant has this name"},
	ReasonProviderInUse:        {CodePrecondition, "the provider has live servers, so it cannot be deleted"},
	ReasonProviderFamily:       {CodePrecondition, "this is not to be done with a provider of this family"},
	ReasonExtensionUnreachable: {CodeRemote, "no connection to the extension, or only the answer that it cannot serve now"},
	ReasonProtocolIncompatible: {CodeRemotePermanent, "the extension speaks another version of AEP"},
	ReasonInvalidResponse:      {CodeRemotePermanent, "what answers there does not give an AEP descriptor"},
	ReasonIdentityMismatch:     {CodeRemotePermanent, "another extension answers than the provider is configured for"},
	ReasonDescriptorInvalid:    {CodeRemotePermanent, "the extension's descriptor breaks rules; the answer names each"},
	ReasonMCPToolNotFound:      {CodePrecondition, "the contribution's MCP server does not list the tool that it names"},

	ReasonDuplicateName:        {CodePrecondition, "two tools of the server have this name"},
	ReasonInvalidSchema:        {CodePrecondition, "a schema of the tool is not a JSON Schema, or the one of its input says nothing about an object"},
	ReasonUnsafeName:           {CodePrecondition, "the tool's name is too long, or has characters that cannot be seen"},
	ReasonTooDeep:              {CodePrecondition, "the tool's definition is nested too deeply"},
	ReasonMalformedField:       {CodePrecondition, "a field of the tool has the wrong type or an unusable value"},
	ReasonAmbiguousKeys:        {CodePrecondition, "the tool's definition has a key twice, or twice but for case"},
	ReasonIDCollision:          {CodePrecondition, "the tool's id belongs to another tool of the tenant"},
	ReasonRemoteRef:            {CodePrecondition, "a schema of the tool refers to something outside of its definition, which is never fetched"},
	ReasonInvalidHeaderMapping: {CodePrecondition, "the tool maps a parameter to an HTTP header in a way that the protocol forbids"},

	ReasonTargetChanged:     {CodePrecondition, "the server is reached elsewhere or as somebody else than approved"},
	ReasonPolicyChanged:     {CodePrecondition, "the policy that governs the server now would not have admitted the approval"},
	ReasonInconsistentLists: {CodePrecondition, "two looks at the server showed two definitions of the tool, without a change in between"},
}

// Code is the error code that the reason travels under.
func (r Reason) Code() Code {
	if row, ok := reasons[r]; ok {
		return row.code
	}
	return CodeInternal
}

// Means is one sentence for people.
func (r Reason) Means() string { return reasons[r].means }

// ours says whether a reason is something of ours, of the connection or of its
// issuer, and nothing that the server did (R146).
func (r Reason) ours() bool {
	return slices.Contains([]Reason{
		ReasonDependency, ReasonSecretRefUnresolved, ReasonAuthKindUnsupported, ReasonIssuerMismatch, ReasonInvalidMetadata, ReasonInvalidClient,
		ReasonUnsupportedGrant, ReasonInvalidTarget, ReasonInvalidScope, ReasonInvalidTokenAnswer, ReasonAudienceMismatch, ReasonKeyUnusable,
	}, r)
}
