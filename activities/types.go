// Package activities is where workflows touch the world: each activity unpacks
// its one input struct, calls one room and packs its one output struct. Every
// activity may run twice, so each names its operation.
package activities

import (
	"time"

	"countersign/registry"
)

// RegisterInput asks for a new server. The operation's id is the update's id.
type RegisterInput struct {
	Registration registry.Registration `json:"registration"`
	Operation    registry.Operation    `json:"operation"`
	Key          string                `json:"key"` // idempotency key
	BodyHash     string                `json:"bodyHash"`
}

// RegisterOutput is the server of the first answer, and as it is now.
type RegisterOutput struct {
	Server   registry.Server `json:"server"`
	Current  registry.Server `json:"current"`
	Live     bool            `json:"live"` // the server of this answer is not retired
	Replayed bool            `json:"replayed"`
}

// DecideInput carries a ruling by a person.
type DecideInput struct {
	Tenant    string             `json:"tenant"`
	ServerID  string             `json:"serverId"`
	Operation registry.Operation `json:"operation"`
	Ruling    registry.Ruling    `json:"ruling"`
	Token     string             `json:"token,omitempty"` // of a signal: the decision token, for one use
}

// ServerOutput is the server after a change. Of an approval, and of one that is
// taken back, it has what the policy demanded and what was approved so far, so that
// this is in the history.
type ServerOutput struct {
	Server   registry.Server    `json:"server"`
	Evidence *registry.Evidence `json:"evidence,omitempty"`
}

// ReevaluateInput asks whether what is bound is what the policy admits.
type ReevaluateInput struct {
	Tenant   string `json:"tenant"`
	ServerID string `json:"serverId"`
	Digest   string `json:"digest"` // of the bundle that was published
}

// PolicyUsersInput asks for servers that a bundle governs.
type PolicyUsersInput struct {
	Tenant  string `json:"tenant"`
	Name    string `json:"name"`
	Version int    `json:"version"`
	After   string `json:"after"` // the last name of the page before
	Limit   int    `json:"limit"`
}

// PolicyUsersOutput names them.
type PolicyUsersOutput struct {
	Names []string `json:"names"`
	Next  string   `json:"next"` // empty at the end
}

// EditConnectionInput carries an edit of a connection. It holds references to
// secrets, and no secret.
type EditConnectionInput struct {
	Tenant    string                  `json:"tenant"`
	Name      string                  `json:"name"`
	Operation registry.Operation      `json:"operation"`
	Edit      registry.ConnectionEdit `json:"edit"`
	Key       string                  `json:"key,omitempty"` // idempotency key
	BodyHash  string                  `json:"bodyHash,omitempty"`
}

// ConnectionOutput is the connection after an edit.
type ConnectionOutput struct {
	Connection registry.Connection `json:"connection"`
	Replayed   bool                `json:"replayed,omitempty"`
}

// ConnectionUsersInput asks for live servers that pin an older version of a
// connection.
type ConnectionUsersInput struct {
	Tenant  string `json:"tenant"`
	Name    string `json:"name"`
	Version int    `json:"version"`
	After   string `json:"after"` // the last name of the page before
	Limit   int    `json:"limit"`
}

// ConnectionUsersOutput names them.
type ConnectionUsersOutput struct {
	Names []string `json:"names"`
	Next  string   `json:"next"` // empty at the end
}

// TakeConnectionInput brings the newest version of its connection to a server.
type TakeConnectionInput struct {
	Tenant   string `json:"tenant"`
	ServerID string `json:"serverId"`
	Name     string `json:"name"`
	Version  int    `json:"version"` // that it was told of
}

// TakeConnectionOutput is the server after it, and who edited the connection.
type TakeConnectionOutput struct {
	Server registry.Server `json:"server"`
	By     string          `json:"by"`
}

// EditInput carries an edit.
type EditInput struct {
	Tenant    string             `json:"tenant"`
	ServerID  string             `json:"serverId"`
	Operation registry.Operation `json:"operation"`
	Edit      registry.Edit      `json:"edit"`
}

// SetEnabledInput switches one tool, or many at once.
type SetEnabledInput struct {
	Tenant    string             `json:"tenant"`
	ServerID  string             `json:"serverId"`
	Operation registry.Operation `json:"operation"`
	Tool      string             `json:"tool"`            // its name at the server
	Tools     []string           `json:"tools,omitempty"` // instead of one, all of these
	Enabled   bool               `json:"enabled"`
}

// RequireApprovalInput says whether each call of tools needs a person's
// approval first.
type RequireApprovalInput struct {
	Tenant    string             `json:"tenant"`
	ServerID  string             `json:"serverId"`
	Operation registry.Operation `json:"operation"`
	Tools     []string           `json:"tools"` // their names at the server
	Required  bool               `json:"required"`
}

// RetireInput ends a server.
type RetireInput struct {
	Tenant    string             `json:"tenant"`
	ServerID  string             `json:"serverId"`
	Operation registry.Operation `json:"operation"`
	Etag      string             `json:"etag,omitempty"`
	Comment   string             `json:"comment,omitempty"`
}

// BeginDiscoveryInput asks for a discovery's number. Running is the number of
// the one that runs, which the caller then joins; 0 when none does.
type BeginDiscoveryInput struct {
	Tenant    string             `json:"tenant"`
	ServerID  string             `json:"serverId"`
	Operation registry.Operation `json:"operation"`
	Key       string             `json:"key,omitempty"`
	BodyHash  string             `json:"bodyHash,omitempty"`
	Running   int64              `json:"running,omitempty"`
}

// BeginDiscoveryOutput names the discovery.
type BeginDiscoveryOutput struct {
	Server   registry.Server `json:"server"`
	Number   int64           `json:"number"`
	Replayed bool            `json:"replayed"`
	RunID    string          `json:"runId,omitempty"` // of the child workflow, while it runs
}

// DiscoverInput is one discovery.
type DiscoverInput struct {
	Tenant       string `json:"tenant"`
	ServerID     string `json:"serverId"`
	Number       int64  `json:"number"`
	RequestedBy  string `json:"requestedBy"`
	TargetDigest string `json:"targetDigest"`
}

// FailDiscoveryInput records that a discovery did not come about.
type FailDiscoveryInput struct {
	Tenant       string          `json:"tenant"`
	ServerID     string          `json:"serverId"`
	Number       int64           `json:"number"`
	RequestedBy  string          `json:"requestedBy"`
	TargetDigest string          `json:"targetDigest"`
	Reason       registry.Reason `json:"reason"`
	Message      string          `json:"message"`
}

// ApplyProbeInput brings a changed outcome to its server.
type ApplyProbeInput struct {
	Probe registry.Probe `json:"probe"`
}

// ExpireInput is a timer that fired.
type ExpireInput struct {
	Tenant    string    `json:"tenant"`
	ServerID  string    `json:"serverId"`
	Digest    string    `json:"digest,omitempty"`   // of the review that expires
	Exception time.Time `json:"exception,omitzero"` // the expiry of the exception that ends
	Term      time.Time `json:"term,omitzero"`      // the moment of an approval that has come
}

// RefuseInput records a decision that came as a signal nobody may act on.
type RefuseInput struct {
	Tenant    string             `json:"tenant"`
	ServerID  string             `json:"serverId"`
	Operation registry.Operation `json:"operation"`
	Ruling    registry.Ruling    `json:"ruling"`
	Reason    registry.Reason    `json:"reason"`
}

// TestInput is a connection test of a server as registered, or of a connection
// as it is now.
type TestInput struct {
	Tenant     string `json:"tenant"`
	ServerID   string `json:"serverId"`
	Connection string `json:"connection,omitempty"` // its name; then there is no server
}

// TestReport is what a connection test found. It is never stored.
type TestReport struct {
	OK              bool            `json:"ok"`
	Reason          registry.Reason `json:"reason,omitempty"`
	Message         string          `json:"message,omitempty"`
	Next            string          `json:"next,omitempty"`
	Steps           []TestStep      `json:"steps"`
	ProtocolVersion string          `json:"protocolVersion,omitempty"`
	ServerName      string          `json:"serverName,omitempty"`
	ServerVersion   string          `json:"serverVersion,omitempty"`
	Kinds           []string        `json:"kinds,omitempty"`
	Tools           int             `json:"tools"`
	Resources       int             `json:"resources"`
	Templates       int             `json:"templates"`
	Prompts         int             `json:"prompts"`
	Quirks          []string        `json:"quirks,omitempty"`
	Health          registry.Health `json:"health,omitzero"` // as a probe would have said it
}

// TestStep is one step of a connection test.
type TestStep struct {
	Name     string        `json:"name"`
	OK       bool          `json:"ok"`
	Detail   string        `json:"detail,omitempty"`
	Duration time.Duration `json:"duration"`
}

// ProbeBatchInput probes one page of servers in one window.
type ProbeBatchInput struct {
	Window     time.Time     `json:"window"`
	After      string        `json:"after"` // key of the last server of the page before
	Limit      int           `json:"limit"`
	AttemptGap time.Duration `json:"attemptGap"` // between the attempts of one window
}

// ProbeBatchOutput is what a page came to.
type ProbeBatchOutput struct {
	Next    string        `json:"next"` // empty at the end
	Probed  int           `json:"probed"`
	Changed []ProbeSignal `json:"changed"`
}

// PlanSweepInput asks how a window's servers are cut into pages.
type PlanSweepInput struct {
	Window time.Time `json:"window"`
	Page   int       `json:"page"` // servers
}

// PlanSweepOutput says how.
type PlanSweepOutput struct {
	Cuts    []string `json:"cuts,omitempty"` // the last key of each page but the last
	Quick   int      `json:"quick"`          // servers
	Slow    int      `json:"slow,omitempty"` // servers that are known to be slow
	Resting int      `json:"resting,omitempty"`
}

// ProbeQuickInput meets a page of servers in one window, each once.
type ProbeQuickInput struct {
	Window   time.Time     `json:"window"`
	Interval time.Duration `json:"interval"` // of windows
	After    string        `json:"after,omitempty"`
	Until    string        `json:"until,omitempty"`
	Start    time.Time     `json:"start"`  // when the first is met
	Spread   time.Duration `json:"spread"` // over which the others follow
}

// ProbeQuickOutput is what it came to.
type ProbeQuickOutput struct {
	Probed  int           `json:"probed"`
	Left    int           `json:"left,omitempty"` // servers of which nothing is recorded yet
	Changed []ProbeSignal `json:"changed,omitempty"`
}

// ProbeRestInput meets the servers of a window that need patience.
type ProbeRestInput struct {
	Window     time.Time     `json:"window"`
	Interval   time.Duration `json:"interval"`
	Slow       bool          `json:"slow,omitempty"` // that are known to be slow; else those that failed once
	AttemptGap time.Duration `json:"attemptGap"`
	Deadline   time.Time     `json:"deadline"`
}

// ProbeSignal is an outcome that its server's workflow must hear of.
type ProbeSignal struct {
	Name  string         `json:"name"` // the server's
	Probe registry.Probe `json:"probe"`
}

// PruneInput asks for a round of retention.
type PruneInput struct{}

// PruneOutput is what it removed.
type PruneOutput struct {
	Snapshots   int `json:"snapshots"`
	Definitions int `json:"definitions"`
	Probes      int `json:"probes,omitempty"`
	Keys        int `json:"keys,omitempty"`       // of idempotency
	Operations  int `json:"operations,omitempty"` // records of them
}

// SaveProviderInput makes a provider of the family AEP, or changes one.
type SaveProviderInput struct {
	Tenant    string                   `json:"tenant"`
	Name      string                   `json:"name"`
	Operation registry.Operation       `json:"operation"`
	Create    *registry.ProviderConfig `json:"create,omitempty"` // else Edit
	Edit      registry.ProviderEdit    `json:"edit,omitzero"`
	Key       string                   `json:"key,omitempty"` // idempotency key
	BodyHash  string                   `json:"bodyHash,omitempty"`
}

// ProviderOutput is the provider after a change.
type ProviderOutput struct {
	Provider registry.Provider `json:"provider"`
	Replayed bool              `json:"replayed,omitempty"`
}

// BeginRefreshInput asks for a refresh's number. Running is the number of the one
// that runs, which the caller then joins; 0 when none does.
type BeginRefreshInput struct {
	Tenant    string             `json:"tenant"`
	Name      string             `json:"name"`
	Operation registry.Operation `json:"operation"`
	Running   int64              `json:"running,omitempty"`
}

// PlanRefreshInput asks for what the extension declares now.
type PlanRefreshInput struct {
	Tenant string `json:"tenant"`
	Name   string `json:"name"`
	Number int64  `json:"number"`
}

// PlanRefreshOutput is what it declares, and what it declares no more.
type PlanRefreshOutput struct {
	Servers []registry.ProviderServer `json:"servers"`
}

// BringServerInput brings one server to what the descriptor declares.
type BringServerInput struct {
	Tenant   string                  `json:"tenant"`
	Provider string                  `json:"provider"` // its name
	Number   int64                   `json:"number"`   // of the refresh
	Actor    registry.Actor          `json:"actor"`    // who asked for it
	Server   registry.ProviderServer `json:"server"`
}

// EndRefreshInput records how a refresh ended.
type EndRefreshInput struct {
	Tenant  string                   `json:"tenant"`
	Name    string                   `json:"name"`
	Number  int64                    `json:"number"`
	Failed  *registry.Error          `json:"failed,omitempty"` // it touched nothing
	Servers []registry.ServerOutcome `json:"servers,omitempty"`
}

// TestProviderInput asks for a test of a provider of the family AEP.
type TestProviderInput struct {
	Tenant string `json:"tenant"`
	Name   string `json:"name"`
}

// ProviderTestReport is what a test found. It is never stored.
type ProviderTestReport struct {
	OK               bool                 `json:"ok"`
	Reason           registry.Reason      `json:"reason,omitempty"` // of the descriptor
	Message          string               `json:"message,omitempty"`
	Next             string               `json:"next,omitempty"`
	Faults           []registry.Field     `json:"faults,omitempty"`
	Warnings         []registry.Field     `json:"warnings,omitempty"`
	URL              string               `json:"url,omitempty"`
	ExtensionName    string               `json:"extensionName,omitempty"`
	ExtensionVersion string               `json:"extensionVersion,omitempty"`
	Duration         time.Duration        `json:"duration"` // of the descriptor
	Servers          []ProviderServerTest `json:"servers,omitempty"`
	Contributions    int                  `json:"contributions"`
	Issues           []ContributionIssue  `json:"issues,omitempty"` // the first hundred
}

// ProviderServerTest is the test of one server that an extension declares.
type ProviderServerTest struct {
	ExternalID string     `json:"externalId"`
	URL        string     `json:"url"`
	Report     TestReport `json:"report"`
}

// ContributionIssue is a contribution that would be no tool.
type ContributionIssue struct {
	ID      string          `json:"id"`
	Server  string          `json:"server"`
	Tool    string          `json:"tool"`
	Reason  registry.Reason `json:"reason"`
	Message string          `json:"message"`
}
