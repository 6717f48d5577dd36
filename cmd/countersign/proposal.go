package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// exceptionDefault is how long a server may be used without authentication
// when nobody says how long.
const exceptionDefault = 720 * time.Hour

// proposal is an approval that somebody is about to give.
type proposal struct {
	server  server
	review  *registryv1.GetReviewResponse // all of it
	request *registryv1.ActivateMcpServerRequest
	tools   []reviewItem         // those of the request, in its order
	skipped []reviewItem         // what --all left out
	before  *registryv1.Decision // that is approved again
	period  time.Duration
}

// newProposal makes an approval of what the flags name among what is offered.
func newProposal(s server, review *registryv1.GetReviewResponse, w *wish, now time.Time) (*proposal, error) {
	digest := w.digest
	if digest == "" {
		digest = review.GetReview().GetDigest()
	}
	p := &proposal{server: s, review: review, request: &registryv1.ActivateMcpServerRequest{
		ServerId: s.GetServerId(), Digest: digest, Empty: w.empty, Comment: w.comment,
	}}
	if err := p.addTools(w); err != nil {
		return nil, err
	}
	if err := p.addResources(w); err != nil {
		return nil, err
	}
	if err := p.addPrompts(w); err != nil {
		return nil, err
	}
	if len(p.request.GetTools())+len(p.request.GetResources())+len(p.request.GetPrompts()) == 0 && !w.empty {
		return nil, usagef("server %s offers no tool that can be approved; --empty activates it with nothing bound", s.GetName())
	}
	return p, p.addException(w, now)
}

func (p *proposal) addTools(w *wish) error {
	classes := map[string]string{} // of the tools that --tool names
	for _, text := range w.tools {
		name, class, err := p.namedTool(text)
		if err != nil {
			return err
		}
		if _, twice := classes[name]; twice {
			return usagef("--tool %s is given twice", name)
		}
		classes[name] = class
	}
	for _, t := range p.review.GetTools() {
		name := t.GetDiff().GetName()
		class, named := classes[name]
		switch {
		case !offered(t), !named && !w.all:
			continue
		case !named && t.GetQuarantineReason() != "":
			p.skipped = append(p.skipped, t)
			continue
		case t.GetQuarantineReason() != "":
			return failf(registry.ReasonToolQuarantined, "tool %q is in quarantine: %s", name, some(": ", t.GetQuarantineReason(), t.GetQuarantineDetail())).
				withNext("mend it at the server, then: countersign server discover %s", p.server.GetName())
		}
		if class == "" {
			class = w.class
		}
		if class == "" {
			return usagef("tool %q needs a side-effect class, %s: give --class CLASS or --tool %s=CLASS%s", name, classWords(), name, suggestionOf(t))
		}
		value, err := parseWord[registryv1.SideEffectClass]("--tool "+name, class)
		if err != nil {
			return err
		}
		p.tools = append(p.tools, t)
		p.request.Tools = append(p.request.Tools, &registryv1.ToolLine{Tool: name, Class: value, Enable: !w.noEnable})
	}
	return nil
}

// suggestionOf says which class a tool seems to be of.
func suggestionOf(t reviewItem) string {
	s := t.GetSuggestion()
	if s == nil {
		return ""
	}
	return fmt.Sprintf("; %s seems to fit, because %s", word(s.GetClass()), s.GetReason())
}

// offeredTools are the tools that the server offers now.
func (p *proposal) offeredTools() []reviewItem {
	return slices.DeleteFunc(slices.Clone(p.review.GetTools()), func(t reviewItem) bool { return !offered(t) })
}

// namedTool finds the tool of NAME[=CLASS], where NAME may be its id as well.
func (p *proposal) namedTool(text string) (name, class string, err error) {
	tools := p.offeredTools()
	find := func(name string) int {
		return slices.IndexFunc(tools, func(t reviewItem) bool { return t.GetDiff().GetName() == name || t.GetToolId() == name })
	}
	name, class, ok := cutOffered(text, func(name string) bool { return find(name) >= 0 })
	if !ok {
		return "", "", p.notOffered(registry.ReasonUnknownTool, "tool", text, tools)
	}
	if name != text && !isClass(class) {
		return "", "", usagef("--tool %s: %q is no side-effect class; there is %s", text, class, classWords())
	}
	return tools[find(name)].GetDiff().GetName(), class, nil
}

// offersItem says whether one of the items has the name and is offered.
func offersItem(name string, items ...reviewItem) bool {
	return slices.ContainsFunc(items, func(i reviewItem) bool { return offered(i) && i.GetDiff().GetName() == name })
}

func (p *proposal) addResources(w *wish) error {
	for _, text := range w.resources {
		find := func(uri string) bool {
			return offersItem(uri, slices.Concat(p.review.GetResources(), p.review.GetTemplates())...)
		}
		uri, classification, ok := cutOffered(text, find)
		if !ok {
			return p.notOffered(registry.ReasonUnknownResource, "resource", text, nil)
		}
		if uri != text && classification == "" {
			return usagef("--resource %s: the classification behind the = is missing", text)
		}
		p.request.Resources = append(p.request.Resources, &registryv1.ResourceLine{Uri: uri, Classification: classification})
	}
	return nil
}

func (p *proposal) addPrompts(w *wish) error {
	for _, text := range w.prompts {
		find := func(name string) bool { return offersItem(name, p.review.GetPrompts()...) }
		name, target, ok := cutOffered(text, find)
		if !ok {
			return p.notOffered(registry.ReasonUnknownPrompt, "prompt", text, nil)
		}
		line := &registryv1.PromptLine{Prompt: name}
		kind, id, found := strings.Cut(target, ":")
		switch {
		case target == "" || found && id == "":
			return usagef("--prompt %s: a target is needed: NAME=skill:ID or NAME=step:REF", text)
		case found && kind == "step":
			line.WorkflowStepRef = id
		case found && kind == "skill":
			line.SkillId = id
		default:
			line.SkillId = target
		}
		p.request.Prompts = append(p.request.Prompts, line)
	}
	return nil
}

// cutOffered cuts NAME=VALUE behind a name that is offered: names may hold "="
// themselves, so the longest counts.
func cutOffered(text string, offered func(string) bool) (name, value string, ok bool) {
	for end := len(text); end >= 0; end = strings.LastIndexByte(text[:end], '=') {
		if offered(text[:end]) {
			return text[:end], strings.TrimPrefix(text[end:], "="), true
		}
	}
	return "", "", false
}

func (p *proposal) notOffered(reason registry.Reason, kind, text string, offered []reviewItem) error {
	f := failf(reason, "server %s offers no %s %q", p.server.GetName(), kind, text)
	if len(offered) > 0 && len(offered) <= 20 {
		var names []string
		for _, t := range offered {
			names = append(names, t.GetDiff().GetName())
		}
		f.Message += "; it offers " + strings.Join(names, ", ")
	}
	return f.withNext("countersign server describe %s", p.server.GetName())
}

// addException says until when the server may be used without authentication.
// An exception that still runs is left as it is unless a flag says otherwise.
func (p *proposal) addException(w *wish, now time.Time) error {
	none := p.server.GetAuthentication() == registryv1.McpAuthentication_MCP_AUTHENTICATION_NONE_EXCEPTION
	period := exceptionDefault
	if w.expires != "" {
		var err error
		if period, err = parsePeriod(w.expires); err != nil || period <= 0 {
			return usagef("--exception-expires %q: a time from now is needed, such as 720h or 30d", w.expires)
		}
		if !none {
			return failf(registry.ReasonInvalidArgument, "server %s authenticates by %s, so there is no exception to expire",
				p.server.GetName(), word(p.server.GetAuthentication())).withNext("leave --exception-expires out")
		}
	}
	runs := p.server.GetAuthenticationException().GetExpireTime().AsTime().After(now) &&
		!slices.Contains(p.server.GetCauses(), string(registry.CauseAuthExceptionExpired))
	if none && (w.expires != "" || !runs) {
		p.period = period
		p.request.ExceptionExpireTime = timestamppb.New(now.Add(period).Truncate(time.Second))
	}
	return nil
}

// parsePeriod reads a duration, which may be in days.
func parsePeriod(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

// show writes what is about to be approved, whole.
func (p *proposal) show(t *sheet) {
	s := p.server
	t.linef("Approval of server %s (%s, %s):", s.GetName(), s.GetServerId(), word(s.GetState()))
	writeTarget(t, "  ", p.review)
	t.field("  Authentication", word(s.GetAuthentication()))
	t.field("  Exception", p.exceptionLine())
	t.field("  Same as", approvedBefore(p.before))
	t.field("  Asked by", some(", ", p.review.GetReview().GetRequestedBy(), when(p.review.GetReview().GetOpenTime())))
	t.field("  Digest", p.request.GetDigest())
	if under := p.review.GetReview().GetDigest(); under != p.request.GetDigest() {
		t.linef("  This is not the digest of what is shown here, which is %s.", under)
	}
	writeInstructions(t, "  ", p.review)
	for i, line := range p.request.GetTools() {
		item := p.tools[i]
		t.linef("")
		t.linef("  Tool %s: class %s, %s, %s", line.GetTool(), word(line.GetClass()), enabling(line, item), standing(item))
		if s := item.GetSuggestion(); s != nil && s.GetClass() == line.GetClass() {
			item = proto.CloneOf(item)
			item.Suggestion = nil // it says nothing that is not in the line
		}
		writeReviewItem(t, "    ", item)
		writeDefinition(t, "    ", item)
	}
	p.showOthers(t)
}

func (p *proposal) showOthers(t *sheet) {
	if len(p.request.GetResources())+len(p.request.GetPrompts())+len(p.skipped) > 0 {
		t.gap()
	}
	for _, r := range p.request.GetResources() {
		classification := r.GetClassification()
		if classification == "" {
			classification = registry.DefaultClassification
		}
		t.linef("  Resource %s: classification %s", r.GetUri(), classification)
	}
	for _, x := range p.request.GetPrompts() {
		t.linef("  Prompt %s: for %s", x.GetPrompt(), some(" ", orNothing("skill ", x.GetSkillId()), orNothing("step ", x.GetWorkflowStepRef())))
	}
	for _, skipped := range p.skipped {
		t.linef("  Skipped: tool %s, in quarantine: %s", skipped.GetDiff().GetName(), some(": ", skipped.GetQuarantineReason(), skipped.GetQuarantineDetail()))
	}
	left := func(kind string, offered, named int) string {
		if offered == named {
			return ""
		}
		return fmt.Sprintf("%d %s", offered-named, kind)
	}
	others := some(", ",
		left("tools", len(p.offeredTools()), len(p.request.GetTools())+len(p.skipped)),
		left("resources", countOffered(p.review.GetResources(), p.review.GetTemplates()), len(p.request.GetResources())),
		left("prompts", countOffered(p.review.GetPrompts()), len(p.request.GetPrompts())))
	t.gap()
	if p.request.GetEmpty() {
		t.linef("  Nothing is bound.")
	}
	if others != "" {
		t.linef("  Not part of this approval: %s.", others)
	}
}

func (p *proposal) exceptionLine() string {
	if p.server.GetAuthentication() != registryv1.McpAuthentication_MCP_AUTHENTICATION_NONE_EXCEPTION {
		return ""
	}
	e := p.server.GetAuthenticationException()
	if until := p.request.GetExceptionExpireTime(); until != nil {
		return fmt.Sprintf("no authentication until %s (%s from now), because: %s", when(until), short(p.period), e.GetReason())
	}
	return fmt.Sprintf("no authentication until %s, as approved before, because: %s", when(e.GetExpireTime()), e.GetReason())
}

// usualException is how long nobody has to be asked twice whether a server
// shall be used without authentication.
const usualException = 366 * 24 * time.Hour

// question is what somebody is asked before the approval.
func (p *proposal) question() string {
	if p.period > usualException {
		return fmt.Sprintf("This allows NO AUTHENTICATION for more than a year, until %s. Approve this?", when(p.request.GetExceptionExpireTime()))
	}
	return "Approve this?"
}

// short writes a duration without its zero parts.
func short(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// enabling says what an approval does to the switch of a tool.
func enabling(line *registryv1.ToolLine, t reviewItem) string {
	switch {
	case t.GetEnabled():
		return "enabled"
	case line.GetEnable():
		return "will be enabled"
	}
	return "stays disabled"
}

// countOffered counts the items that the server offers now.
func countOffered(lists ...[]reviewItem) int {
	n := 0
	for _, item := range slices.Concat(lists...) {
		if offered(item) {
			n++
		}
	}
	return n
}
