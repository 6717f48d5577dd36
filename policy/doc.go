// Package policy evaluates governance policy bundles: who must approve what, which drift unbinds, and which calls are
// refused. A bundle is a YAML or JSON document; its rules are written in CEL (https://cel.dev). It is compiled once
// and evaluated without I/O: the same bundle and input give the same verdict everywhere.
//
//	name: payments
//	version: 3
//	description: What the payments team asks for.
//	timezone: Europe/Berlin          # of the variables local.*; UTC when left out
//	approval:                        # every rule that matches an item of an approval adds what it asks for
//	  - name: publication
//	    when: class == "publication"
//	    approvers: 2                 # so many people
//	    not_requester: true          # none of them who asked for the approval
//	    roles: {PlatformAdmin: 1}    # so many of them with the role
//	    from: '!approver.subject.endsWith("@contractors.example")'   # asked for each approver: may they?
//	    comment: Say which change this is for.                       # each approver must say why
//	    expiry: {after: 180d, recertify: 30d, grace: 7d, remind: [30d, 7d, 1d]}
//	  - name: no-foreign-servers
//	    when: server.owner == ""
//	    refuse: A server without an owner cannot be approved.
//	drift:                           # a rule that matches keeps a drifted tool bound
//	  - name: wording
//	    when: drift.severity == "text" && class == "read"
//	calls:                           # a rule that matches refuses a call
//	  - name: weekend
//	    when: class == "publication" && local.weekday in ["saturday", "sunday"]
//	    deny: Nothing is published on a weekend.
//	tests:
//	  - name: nothing on a saturday
//	    call: {class: publication, now: 2026-01-03T10:00:00Z}
//	    expect: {allowed: false, rule: weekend}
//
// # Rules
//
// Approval: the strictest of all matching rules counts, over all items of the approval: the largest number of people,
// every role, the shortest expiry, every comment. An item for which no matching rule gives a number of people refuses
// the approval. Drift: no rule, no relief; and no rule can relax more than C5 does (registry.Moved.Relaxable). Calls:
// what no rule denies is allowed. A rule that fails denies: the approval, the relief, the call.
//
// # Variables
//
// Everywhere:
//
//	server.name server.owner server.direction server.transport server.authentication server.state   string
//	server.labels                               map(string, string)
//	class                                       string: read, sandbox, shared_write, publication; empty for what is no tool
//	tool.name tool.id                           string: as the server says, and as the catalog does; of resources the URI
//	now                                         timestamp
//	local.date local.weekday                    string: "2026-01-31", "saturday"; in the bundle's timezone
//	local.hour local.minute                     int
//
// In approval and drift:
//
//	kind                                        string: tool, resource, template, prompt, nothing (the empty set)
//	tool.title tool.text                        string: title and description, as sent
//	tool.hints                                  list(string): what the review points out
//	tool.annotations                            map(string, bool): what the server states, such as destructiveHint
//	tool.approved_class                         string: as which the tool was approved before; empty: never
//	drift.severity                              string: cosmetic, text, widening, narrowing, breaking, escalating; empty: none
//	drift.moved                                 list(string): contract, text, behaviour, target
//
// In approval: requester.subject (string). In from, besides: approver.subject (string), approver.roles (list(string)),
// approver.time (timestamp). In calls: agent.id and workspace (string), empty when the caller names none.
//
// A key that a map lacks is an error, and errors deny: write server.labels[?"team"].orValue("") or
// "team" in server.labels. Functions are CEL's standard ones, with optional values; there is no I/O, no clock but now
// and no time zone but the bundle's. Patterns of matches are RE2 and literals. What has no order cannot become a list.
package policy
