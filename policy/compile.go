package policy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

// Policy is a bundle whose rules are compiled. It is safe for concurrent use. A nil one denies everything.
type Policy struct {
	bundle *Bundle
	digest string
	ref    string
	zone   *time.Location

	approval []approvalRule
	drift    []expression
	calls    []expression
}

type approvalRule struct {
	*ApprovalRule
	when expression
	from expression // no program: the rule does not say
}

// Load reads and compiles a document. Its error has the reason invalid_policy and a field for each fault.
func Load(document []byte) (*Policy, error) {
	bundle, problems := Parse(document)
	if len(problems) > 0 {
		return nil, Refusal(problems)
	}
	p, problems := Compile(bundle)
	return p, Refusal(problems)
}

// Check says what is wrong with a bundle, nothing when it can be published. It does not run its tests; Test does.
func Check(bundle *Bundle) []Problem {
	_, problems := Compile(bundle)
	return problems
}

// Compile makes a bundle ready for use. It gives a policy or problems, never both. The bundle may not be changed
// afterwards.
func Compile(b *Bundle) (*Policy, []Problem) {
	zone, problems := b.check()
	if len(problems) > 0 && len(b.Approval)+len(b.Drift)+len(b.Calls) > MaxRules {
		return nil, problems // compiling so many could take long
	}
	p := &Policy{bundle: b, zone: zone, ref: b.Ref()}
	compile := func(s scope, section string, i int, field, source string) expression {
		e, problem := b.compile(s, section, i, field, source)
		problems = append(problems, problem...)
		return e
	}
	for i := range b.Approval {
		rule := approvalRule{ApprovalRule: &b.Approval[i]}
		rule.when = compile(approvalScope, "approval", i, "when", rule.When)
		if rule.From != "" {
			rule.from = compile(approverScope, "approval", i, "from", rule.From)
		}
		p.approval = append(p.approval, rule)
	}
	for i, rule := range b.Drift {
		p.drift = append(p.drift, compile(driftScope, "drift", i, "when", rule.When))
	}
	for i, rule := range b.Calls {
		p.calls = append(p.calls, compile(callScope, "calls", i, "when", rule.When))
	}
	if len(problems) > 0 {
		slices.SortStableFunc(problems, comparePositions)
		return nil, problems
	}
	p.digest = b.Digest()
	return p, nil
}

// Digest addresses the bundle that the policy was compiled from.
func (p *Policy) Digest() string {
	if p == nil {
		return ""
	}
	return p.digest
}

// Ref gives the bundle's name@version.
func (p *Policy) Ref() string {
	if p == nil {
		return ""
	}
	return p.ref
}

// Bundle gives the bundle that the policy was compiled from. It may not be changed.
func (p *Policy) Bundle() *Bundle { return p.bundle }

// expression is a compiled one, that gives true or false. Counting what it costs takes longer than what is counted. So
// where the compiler shows that it can never be much, there is a program that does not count.
type expression struct {
	program cel.Program
	small   cel.Program // nil: there is none
}

// compile compiles one expression of a rule.
func (b *Bundle) compile(s scope, section string, index int, field, source string) (_ expression, problems []Problem) {
	fail := func(format string, args ...any) []Problem {
		return []Problem{b.problem(section, index, field, format, args...)}
	}
	// The compiler reads what strangers to it wrote: it must not take the process with it.
	defer func() {
		if r := recover(); r != nil {
			problems = fail("the compiler failed: %s", message(fmt.Sprint(r)))
		}
	}()
	if strings.TrimSpace(source) == "" {
		return expression{}, fail("is required")
	}
	env, err := s.env()
	if err != nil {
		return expression{}, fail("%s", err)
	}
	checked, issues := env.Compile(source)
	if issues.Err() != nil {
		for _, e := range issues.Errors() {
			p := b.problem(section, index, field, "%s", message(e.Message))
			problems = append(problems, b.inside(p, e.Location.Line(), e.Location.Column()))
		}
		return expression{}, problems
	}
	if got := checked.OutputType(); !got.IsExactType(cel.BoolType) {
		return expression{}, fail("must be true or false, this is %s", got)
	}
	var e expression
	if e.program, err = env.Program(checked, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(s.cost)); err != nil {
		return expression{}, fail("%s", message(err.Error()))
	}
	if s.bounds == nil {
		return e, nil
	}
	if estimate, err := env.EstimateCost(checked, s.bounds); err == nil && estimate.Max <= smallCost {
		if e.small, err = env.Program(checked, cel.EvalOptions(cel.OptOptimize)); err != nil {
			return expression{}, fail("%s", message(err.Error()))
		}
	}
	return e, nil
}

// errBudget is that rules together cost more than they may.
var errBudget = errors.New("the rules together cost more than an evaluation may")

// holds evaluates the expression and takes what it cost from the budget.
func (e expression) holds(f *facts, budget *uint64) (bool, error) {
	if e.program == nil {
		return false, errors.New("the rule was not compiled")
	}
	program := e.program
	if f.bounded && e.small != nil {
		program = e.small
	}
	out, details, err := program.Eval(f)
	if details.ActualCost() != nil {
		cost := *details.ActualCost()
		if cost > *budget {
			*budget = 0
			return false, errBudget
		}
		*budget -= cost
	}
	if err != nil {
		return false, errors.New(message(err.Error()))
	}
	is, ok := out.(types.Bool)
	if !ok {
		return false, fmt.Errorf("the rule gave %s", out.Type().TypeName())
	}
	return bool(is), nil
}

// message makes a text fit for people that may hold words of a server: short, on one line, nothing invisible.
func message(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "…"
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
