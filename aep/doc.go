// Package aep reads descriptors of the Agentstration Extension Protocol
// (requirements.md, Appendix A): it fetches one by way of a guarded client,
// judges it, and resolves the endpoints in it. It knows nothing of MCP: schemas
// come from the MCP servers that a descriptor names, and schema keys in a
// contribution are ignored (R103).
//
// Errors are [registry.Error] with the reasons extension_unreachable,
// protocol_incompatible, invalid_response, extension_identity_mismatch and
// aep_descriptor_invalid; and blocked_address where the outbound guard, and not
// the extension, refuses.
package aep
