package policy

import (
	"regexp/syntax"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/checker"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"

	"countersign/registry"
)

// What rules can see, by what they decide on. The names are variables of their own and not fields of messages: so the
// compiler knows every one of them, and reading one costs a comparison of texts.
var (
	everywhere = []cel.EnvOption{
		cel.Variable("server.name", cel.StringType),
		cel.Variable("server.owner", cel.StringType),
		cel.Variable("server.labels", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("server.direction", cel.StringType),
		cel.Variable("server.transport", cel.StringType),
		cel.Variable("server.authentication", cel.StringType),
		cel.Variable("server.state", cel.StringType),
		cel.Variable("class", cel.StringType),
		cel.Variable("tool.name", cel.StringType),
		cel.Variable("tool.id", cel.StringType),
		cel.Variable("now", cel.TimestampType),
		cel.Variable("local.date", cel.StringType),
		cel.Variable("local.weekday", cel.StringType),
		cel.Variable("local.hour", cel.IntType),
		cel.Variable("local.minute", cel.IntType),
	}
	ofItems = []cel.EnvOption{
		cel.Variable("kind", cel.StringType),
		cel.Variable("tool.title", cel.StringType),
		cel.Variable("tool.text", cel.StringType),
		cel.Variable("tool.hints", cel.ListType(cel.StringType)),
		cel.Variable("tool.annotations", cel.MapType(cel.StringType, cel.BoolType)),
		cel.Variable("tool.approved_class", cel.StringType),
		cel.Variable("drift.severity", cel.StringType),
		cel.Variable("drift.moved", cel.ListType(cel.StringType)),
	}
	ofRequests  = []cel.EnvOption{cel.Variable("requester.subject", cel.StringType)}
	ofApprovers = []cel.EnvOption{
		cel.Variable("approver.subject", cel.StringType),
		cel.Variable("approver.roles", cel.ListType(cel.StringType)),
		cel.Variable("approver.time", cel.TimestampType),
	}
	ofCalls = []cel.EnvOption{
		cel.Variable("agent.id", cel.StringType),
		cel.Variable("workspace", cel.StringType),
	}
)

// walkable are the variables that are maps and are walked in the order of their keys.
var walkable = []string{"server.labels", "tool.annotations"}

// words are the variables that have few values. Comparing one with another text is a slip of the pen, and one that
// nobody would see: the rule would never match.
var words = map[string][]string{
	"class":                 append(texts(registry.Classes()), ""),
	"tool.approved_class":   append(texts(registry.Classes()), ""),
	"kind":                  texts(kinds),
	"drift.severity":        append(registry.DriftSeverities(), ""),
	"drift.moved":           registry.Moved{Contract: true, Text: true, Behaviour: true, Target: true}.Names(),
	"local.weekday":         weekdays[:],
	"approver.roles":        texts(registry.Roles()),
	"server.direction":      texts(directions),
	"server.transport":      texts(transports),
	"server.authentication": texts(authentications),
	"server.state":          texts(registry.States()),
}

var (
	kinds           = []registry.ItemKind{registry.KindTool, registry.KindResource, registry.KindTemplate, registry.KindPrompt, KindNothing}
	directions      = []registry.Direction{registry.DirectionConsumed, registry.DirectionExposed}
	transports      = []registry.Transport{registry.TransportStreamableHTTP, registry.TransportStdio}
	authentications = []registry.Authentication{registry.AuthOAuth2, registry.AuthWorkloadIdentity, registry.AuthNoneException}
)

func texts[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, t := range list {
		out[i] = string(t)
	}
	return out
}

// Costs, in CEL's units: about one per step, and a tenth per byte of a text that is looked through.
const (
	reviewCost   = 100_000   // one rule on one item, or one approver
	reviewBudget = 5_000_000 // all rules on all items of an approval, and again for each of its approvers
	callCost     = 5_000     // one rule on one call
	callBudget   = 20_000    // all rules on one call
	smallCost    = 500       // what need not be counted, since it cannot be more
)

// scope is what an expression may see and cost.
type scope struct {
	env    func() (*cel.Env, error)
	cost   uint64
	bounds bounds // of what it sees; nil: there are none
}

// bounds are how long texts and lists among the variables can be at most. What registry lets in is shorter.
type bounds map[string]uint64

var callBounds = bounds{
	"server.name": 256, "server.owner": 256, "server.labels": registry.MaxLabels, "tool.name": 256, "tool.id": 256, "agent.id": 256,
	"workspace": 256, "server.labels.@keys": 256, "server.labels.@values": 256,
}

// EstimateSize implements checker.CostEstimator.
func (b bounds) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	path := strings.Join(node.Path(), ".")
	if known, ok := words[path]; ok { // one of them, not a list of some: there is none among the variables of calls
		longest := slices.MaxFunc(known, func(a, b string) int { return len(a) - len(b) })
		return &checker.SizeEstimate{Max: uint64(len(longest))}
	}
	if size, ok := b[path]; ok {
		return &checker.SizeEstimate{Max: size}
	}
	return nil
}

// EstimateCallCost implements checker.CostEstimator.
func (bounds) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// hold says whether a call is within the bounds.
func (b bounds) hold(in *Call) bool {
	for _, is := range [...]struct{ name, text string }{
		{"server.name", in.Server.Name},
		{"server.owner", in.Server.Owner},
		{"tool.name", in.Tool},
		{"tool.id", in.ToolID},
		{"agent.id", in.Agent},
		{"workspace", in.Workspace},
	} {
		if uint64(len(is.text)) > b[is.name] {
			return false
		}
	}
	for key, value := range in.Server.Labels {
		if uint64(len(key)) > b["server.labels.@keys"] || uint64(len(value)) > b["server.labels.@values"] {
			return false
		}
	}
	return uint64(len(in.Server.Labels)) <= b["server.labels"]
}

var (
	approvalScope = scope{environment(everywhere, ofItems, ofRequests), reviewCost, nil}
	approverScope = scope{environment(everywhere, ofItems, ofRequests, ofApprovers), reviewCost, nil}
	driftScope    = scope{environment(everywhere, ofItems), reviewCost, nil}
	callScope     = scope{environment(everywhere, ofCalls), callCost, callBounds}
)

// base has CEL's standard functions and macros and optional values, and what bounds an expression.
var base = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewCustomEnv(
		cel.StdLib(), cel.OptionalTypes(), cel.DefaultUTCTimeZone(true),
		cel.ParserExpressionSizeLimit(MaxExpression), cel.ParserRecursionLimit(64),
		cel.ASTValidators(
			cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals(),
			cel.ValidateHomogeneousAggregateLiterals(), cel.ValidateComprehensionNestingLimit(2), repeatable{}, spelling{},
		),
	)
})

func environment(variables ...[]cel.EnvOption) func() (*cel.Env, error) {
	return sync.OnceValues(func() (*cel.Env, error) {
		env, err := base()
		if err != nil {
			return nil, err
		}
		return env.Extend(slices.Concat(variables...)...)
	})
}

// repeatable refuses what would not give the same answer everywhere, or whose cost nobody could foresee.
type repeatable struct{}

// Name implements cel.ASTValidator.
func (repeatable) Name() string { return "countersign.repeatable" }

// Validate implements cel.ASTValidator.
func (repeatable) Validate(_ *cel.Env, _ cel.ValidatorConfig, a *ast.AST, issues *cel.Issues) {
	root := ast.NavigateAST(a)
	for _, e := range ast.MatchDescendants(root, ast.KindMatcher(ast.ComprehensionKind)) {
		walked := e.AsComprehension().IterRange()
		kind := a.GetType(walked.ID()).Kind()
		if kind != types.ListKind && (walked.Kind() != ast.IdentKind || !slices.Contains(walkable, walked.AsIdent())) {
			issues.ReportErrorAtID(walked.ID(), "only lists, and the maps among the variables, have an order to walk in")
		}
	}
	for _, e := range ast.MatchDescendants(root, ast.FunctionMatcher(overloads.Matches)) {
		args := e.AsCall().Args()
		pattern := args[len(args)-1] // whether it is written as a method or a function
		if why := judgePattern(pattern); why != "" {
			issues.ReportErrorAtID(pattern.ID(), "%s", why)
		}
	}
	for _, function := range partsOfTime {
		for _, e := range ast.MatchDescendants(root, ast.FunctionMatcher(function)) {
			if len(e.AsCall().Args()) > 0 {
				issues.ReportErrorAtID(e.ID(), "%s takes no time zone; set the bundle's timezone and use local.date, local.weekday, local.hour, local.minute", function)
			}
		}
	}
}

// partsOfTime would read the machine's database of time zones at each evaluation if they were given one.
var partsOfTime = []string{
	overloads.TimeGetFullYear, overloads.TimeGetMonth, overloads.TimeGetDayOfYear, overloads.TimeGetDate,
	overloads.TimeGetDayOfMonth, overloads.TimeGetDayOfWeek, overloads.TimeGetHours, overloads.TimeGetMinutes,
	overloads.TimeGetSeconds, overloads.TimeGetMilliseconds,
}

// judgePattern says why a pattern cannot be used, or nothing.
func judgePattern(e ast.Expr) string {
	if e.Kind() != ast.LiteralKind {
		return "the pattern must be a literal"
	}
	text, _ := e.AsLiteral().(types.String)
	pattern, err := syntax.Parse(string(text), syntax.Perl)
	if err != nil {
		return "" // the validator of patterns says so
	}
	program, err := syntax.Compile(pattern.Simplify())
	if err != nil || len(program.Inst) > maxRegexp {
		return "the pattern is too large"
	}
	return ""
}

// spelling refuses comparisons of words with what they never are.
type spelling struct{}

// Name implements cel.ASTValidator.
func (spelling) Name() string { return "countersign.spelling" }

// Validate implements cel.ASTValidator.
func (s spelling) Validate(_ *cel.Env, _ cel.ValidatorConfig, a *ast.AST, issues *cel.Issues) {
	for _, e := range ast.MatchDescendants(ast.NavigateAST(a), ast.FunctionMatcher(operators.Equals)) {
		s.both(e.AsCall().Args(), issues)
	}
	for _, e := range ast.MatchDescendants(ast.NavigateAST(a), ast.FunctionMatcher(operators.NotEquals)) {
		s.both(e.AsCall().Args(), issues)
	}
	for _, e := range ast.MatchDescendants(ast.NavigateAST(a), ast.FunctionMatcher(operators.In)) {
		args := e.AsCall().Args()
		s.one(args[1], args[0], issues)
		if args[1].Kind() == ast.ListKind {
			for _, element := range args[1].AsList().Elements() {
				s.one(args[0], element, issues)
			}
		}
	}
}

func (s spelling) both(args []ast.Expr, issues *cel.Issues) {
	s.one(args[0], args[1], issues)
	s.one(args[1], args[0], issues)
}

func (spelling) one(variable, literal ast.Expr, issues *cel.Issues) {
	if variable.Kind() != ast.IdentKind || literal.Kind() != ast.LiteralKind {
		return
	}
	known := words[variable.AsIdent()]
	text, ok := literal.AsLiteral().(types.String)
	if known != nil && ok && !slices.Contains(known, string(text)) {
		issues.ReportErrorAtID(literal.ID(), "%s is never %q; it is one of %q", variable.AsIdent(), string(text), known)
	}
}
