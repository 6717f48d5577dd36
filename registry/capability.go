package registry

// What a server can do is partly in its lists and partly known only to people
// who tried: a tool that is there may work from some version on, or not at all.
// The capability model keeps that knowledge as rows of a table, keyed by
// version, and holds it against what the last look at the server saw. A
// capability is available only where both agree (C14): a row may say yes and
// the look no, never the other way round.

// Axis is the version that a row of the capability table goes by (C15).
type Axis string

// The axes.
const (
	AxisServer   Axis = "server"   // what the server says of itself
	AxisProduct  Axis = "product"  // the product behind it: declared with the server, else read out of what it says
	AxisProtocol Axis = "protocol" // the negotiated protocol version
)

// Axes lists every axis.
func Axes() []Axis { return []Axis{AxisServer, AxisProduct, AxisProtocol} }

// Since is from which version on something holds. The zero value is: from all.
type Since struct {
	Axis    Axis
	Version string // dotted numbers, or a date for the protocol
}

// ToolArg is an argument of a tool: a property of its input schema.
type ToolArg struct {
	Tool, Arg string
}

// CapabilityRow is one row of the capability table (R82). It can say that a
// capability is not available or since when it is; that tools and arguments are
// there is said by the server alone (R83).
type CapabilityRow struct {
	Key           string // unique in the table
	Feature       string // what it is, for people
	Available     bool   // false: in no version, as far as is known
	Since         Since
	RequiresTools []string  // all must be there
	RequiresArgs  []ToolArg // all must be there
	Gates         []string  // tools that may be called only while the capability is available (R86)
	Note          string    // what people should know; why, when it is not available
}

// KnownServer is a server that the table has rows about. A server is taken for
// it by the names: those that it gives itself, which it may choose, and those
// that it was registered under, which it may not. When both are given, both
// must fit.
type KnownServer struct {
	ID         string // unique in the table
	Title      string
	Reported   []string // names that the server gives itself
	Registered []string // names that it is registered under
	// Product is a regular expression with one group, which finds the product's
	// version in the server's own. A version that is declared with the server
	// goes before it.
	Product string
	// Foreign are patterns, as path.Match has them, of tools that the server
	// only passes on from others. Such tools are listed and decide nothing (R88).
	Foreign []string
	Rows    []CapabilityRow
}
