package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// writeReview writes what there is to sign: the counts first, then where and
// what, the worst first, and how to sign it at the end.
func writeReview(t *sheet, s server, r *registryv1.GetReviewResponse) {
	t.linef("Review of server %s (%s, %s): %s", r.GetServerName(), r.GetServerId(), word(s.GetState()), reviewTitle(r))
	writeReviewCounts(t, r)
	t.gap()
	writeReviewHead(t, s, r)
	if r.GetInstructions()+r.GetApprovedInstructions() != "" {
		t.gap()
		writeInstructions(t, "", r)
	}
	for _, kind := range []struct {
		name  string
		items []reviewItem
	}{{"Tool", r.GetTools()}, {"Resource", r.GetResources()}, {"Resource template", r.GetTemplates()}, {"Prompt", r.GetPrompts()}} {
		for _, item := range kind.items {
			t.gap()
			t.linef("%s %s: %s", kind.name, item.GetDiff().GetName(), standing(item))
			writeReviewItem(t, "  ", item)
			if item.GetNeedsLook() {
				writeDefinition(t, "  ", item)
			}
		}
	}
	t.gap()
	writeHowToSign(t, s, r)
}

// reviewTitle says what is asked, which is never more than one thing.
func reviewTitle(r *registryv1.GetReviewResponse) string {
	severity := emphasis(registry.Severity(word(r.GetDiff().GetSeverity())))
	switch r.GetKind() {
	case registryv1.ReviewKind_REVIEW_KIND_FIRST:
		return "first review, nothing was approved yet"
	case registryv1.ReviewKind_REVIEW_KIND_DRIFT:
		if e := r.GetEqualApproval(); e != nil {
			return fmt.Sprintf("drift (%s); it offers what %s approved on %s", severity, e.GetApprovedBy(), when(e.GetApproveTime()))
		}
		if severity == "" {
			return "drift of the target; what it offers is as approved"
		}
		return "drift, " + severity
	case registryv1.ReviewKind_REVIEW_KIND_AGAIN:
		return "as approved, and to be decided again"
	default:
		return "nothing to sign, it is as approved"
	}
}

func writeReviewCounts(t *sheet, r *registryv1.GetReviewResponse) {
	d := r.GetDiff()
	first := r.GetKind() == registryv1.ReviewKind_REVIEW_KIND_FIRST
	for i, l := range []struct {
		plural string
		counts *registryv1.DiffCounts
	}{{"Tools", d.GetTools()}, {"Resources", d.GetResources()}, {"Resource templates", d.GetTemplates()}, {"Prompts", d.GetPrompts()}} {
		counts := countsIn(l.counts)
		switch {
		case i > 0 && counts == (registry.DiffCounts{}):
		case first:
			t.linef("- %s: %d", l.plural, counts.Added)
		default:
			t.linef("- %s: %s", l.plural, countLine(counts))
		}
	}
	hinted := 0
	suggested := map[string]int{}
	for _, item := range reviewItems(r) {
		if accused(item.GetHints()) {
			hinted++
		}
		if class := word(item.GetSuggestion().GetClass()); class != "" && item.GetNeedsLook() {
			suggested[class]++
		}
	}
	say := func(n int, format string) {
		if n > 0 {
			t.linef("- "+format, n)
		}
	}
	say(int(r.GetQuarantinedItems()), "cannot be approved: %d")
	say(int(r.GetUnboundItems()), "approved before and no longer bound: %d")
	say(hinted, "with hints to look at: %d")
	var classes []string
	for _, class := range words[registryv1.SideEffectClass]() {
		if n := suggested[class]; n > 0 {
			classes = append(classes, fmt.Sprintf("%s %d", class, n))
		}
	}
	if len(classes) > 0 {
		t.linef("- classes that seem to fit (a suggestion): %s", strings.Join(classes, ", "))
	}
}

// accused says whether hints are of a kind that honest items seldom have.
func accused(hints []*registryv1.Hint) bool {
	var in []registry.Hint
	for _, h := range hints {
		in = append(in, registry.Hint{Code: registry.HintCode(h.GetCode())})
	}
	return registry.Accuse(in)
}

func writeReviewHead(t *sheet, s server, r *registryv1.GetReviewResponse) {
	writeTarget(t, "", r)
	t.field("Authentication", word(s.GetAuthentication()))
	t.field("Exception", exceptionLine(s))
	t.field("Says it is", reportedLine(r.GetReported()))
	t.field("Protocol", r.GetProtocolVersion())
	t.field("Lists", strings.Join(r.GetCapabilities(), ", "))
	t.field("Tolerated", strings.Join(r.GetQuirks(), ", "))
	for _, g := range r.GetGaps() {
		t.field("Not checked", g.GetDetail())
	}
	describeReview(t, r.GetReview())
	if a := r.GetLastApproval(); a != nil {
		t.field("Approved before", fmt.Sprintf("by %s, %s", a.GetApprovedBy(), when(a.GetApproveTime())))
		if from := r.GetDiff().GetFromDigest(); from != r.GetDiff().GetToDigest() {
			t.field("Compared", from+" → "+r.GetDiff().GetToDigest())
		}
	}
	if lines := whole.changeLines(withoutInstructions(changesIn(r.GetDiff().GetServerChanges()))); len(lines) > 0 {
		t.gap()
		t.linef("Server:")
		for _, line := range lines {
			t.linef("  - %s", line)
		}
	}
}

// withoutInstructions leaves out what is shown whole elsewhere.
func withoutInstructions(changes []registry.Change) []registry.Change {
	return slices.DeleteFunc(changes, func(c registry.Change) bool { return c.Kind == registry.ChangeInstructions })
}

// writeTarget says where the server is reached, and where it was when it was
// approved.
func writeTarget(t *sheet, indent string, r *registryv1.GetReviewResponse) {
	now, was := targetLine(r.GetTarget()), targetLine(r.GetApprovedTarget())
	t.field(indent+"Target", now)
	if len(r.GetChangedTargetFields()) > 0 {
		t.field(indent+"Target before", was)
		t.linef("%sThe target changed since the approval: %s.", indent, strings.Join(r.GetChangedTargetFields(), ", "))
	}
}

func targetLine(t *registryv1.Target) string {
	command := ""
	if k := t.GetCommand(); k != nil {
		var env []string
		for name, ref := range k.GetEnv() {
			env = append(env, name+"="+ref)
		}
		slices.Sort(env)
		network := "no network"
		if k.GetNetwork() {
			network = "network"
		}
		command = some(", ", "command "+k.GetRef()+": "+strings.Join(k.GetArgv(), " "), orNothing("root ", k.GetImage()), orNothing("in ", k.GetWorkingDirectory()),
			orNothing("reading ", strings.Join(k.GetMounts(), " ")),
			orNothing("environment ", strings.Join(env, " ")), network, orNothing("sandbox ", k.GetSandbox()))
	}
	return some(", ", t.GetUrl(), orNothing("connecting to ", t.GetDialAddress()), command, credentialLine(t))
}

// credentialLine says as whom a server is reached, and whom we believe there.
func credentialLine(t *registryv1.Target) string {
	kind := t.GetAuthKind()
	if kind == string(registry.AuthKindNone) {
		kind = ""
	}
	var headers []string
	for _, name := range slices.Sorted(maps.Keys(t.GetHeaders())) {
		headers = append(headers, name+" from "+t.GetHeaders()[name])
	}
	return some(", ", orNothing("authorised by ", kind), orNothing("header ", strings.Join(headers, ", header ")),
		orNothing("issuer ", t.GetIssuer()), orNothing("tokens from ", t.GetTokenEndpoint()), orNothing("client ", t.GetClientId()), orNothing("secret ", t.GetSecretRef()),
		orNothing("scopes ", strings.Join(t.GetScopes(), " ")), orNothing("at its wish scopes ", strings.Join(t.GetStepUpScopes(), " ")),
		orNothing("opening ", strings.Join(t.GetAllowedNetworks(), " ")),
		orNothing("trusting certificates ", t.GetCaBundleDigest()),
		orNothing("showing certificate ", some(" with key ", t.GetClientCertificateRef(), t.GetClientKeyRef())))
}

// writeInstructions writes the instructions of the server, and those that were
// approved when they were others.
func writeInstructions(t *sheet, indent string, r *registryv1.GetReviewResponse) {
	now, was := r.GetInstructions(), r.GetApprovedInstructions()
	if now == "" && was == "" {
		return
	}
	changed := was != now && r.GetLastApproval() != nil
	switch {
	case now == "":
		t.linef("%sInstructions of the server: it has none any more.", indent)
	case changed:
		t.linef("%sInstructions of the server (not to be trusted), CHANGED since the approval:", indent)
	default:
		t.linef("%sInstructions of the server (not to be trusted):", indent)
	}
	if now != "" {
		t.block(indent+"  ", now)
	}
	writeHints(t, indent+"  ", r.GetInstructionHints())
	if changed && was != "" {
		t.linef("%sInstructions that were approved:", indent)
		t.block(indent+"  ", was)
	}
}

// standing says in short what became of an item.
func standing(item reviewItem) string {
	d := item.GetDiff()
	var out string
	switch d.GetStatus() {
	case itemAdded:
		out = "new"
		if from := d.GetRenamedFrom(); from != "" {
			out += "; probably was " + codeSpan(from) + likeness(renameOf(d))
		}
	case itemRemoved:
		out = "**gone**"
		if to := d.GetRenamedTo(); to != "" {
			out += "; probably " + codeSpan(to) + " now" + likeness(renameOf(d))
		}
	case itemChanged:
		out = "changed, " + emphasis(registry.Severity(word(d.GetSeverity())))
		var parts []string
		for _, m := range []struct {
			moved bool
			what  string
		}{{d.GetContract(), "contract"}, {d.GetText(), "text"}, {d.GetBehaviour(), "behaviour"}} {
			if m.moved {
				parts = append(parts, m.what)
			}
		}
		if len(parts) > 0 {
			out += " (" + strings.Join(parts, ", ") + ")"
		}
	default:
		out = "unchanged"
	}
	if item.GetQuarantineReason() != "" {
		out += "; CANNOT BE APPROVED: " + some(": ", item.GetQuarantineReason(), item.GetQuarantineDetail())
	}
	return out
}

func renameOf(d *registryv1.ItemDiff) registry.Rename {
	return registry.Rename{Score: d.GetLikeness(), Same: d.GetSameContract()}
}

// writeReviewItem writes what is known about an item: hints, terms, suggestion,
// and what changed.
func writeReviewItem(t *sheet, indent string, item reviewItem) {
	writeHints(t, indent, item.GetHints())
	if text := termsLine(item); text != "" {
		t.linef("%s%s", indent, text)
	}
	if s := item.GetSuggestion(); s != nil {
		t.linef("%ssuggested class: %s, because %s", indent, word(s.GetClass()), s.GetReason())
	}
	for _, line := range whole.changeLines(changesIn(item.GetDiff().GetChanges())) {
		t.linef("%s- %s", indent, line)
	}
}

func writeHints(t *sheet, indent string, hints []*registryv1.Hint) {
	for _, h := range hints {
		t.linef("%sHINT %s", indent, some(": ", some(" at ", h.GetCode(), h.GetPath()), h.GetDetail()))
	}
}

// termsLine says on which terms an item was approved before, and whether they
// hold.
func termsLine(item reviewItem) string {
	terms := item.GetTerms()
	if terms == nil {
		return ""
	}
	what := some(", ",
		orNothing("class ", word(terms.GetDeclaredClass())), orNothing("descriptor ", some(" version ", terms.GetDescriptorId(), terms.GetDescriptorVersion())),
		orNothing("source ", terms.GetSourceId()), orNothing("classification ", terms.GetClassification()), orNothing("scope ", terms.GetScope()),
		orNothing("skill ", terms.GetSkillId()), orNothing("step ", terms.GetWorkflowStepRef()))
	line := "approved before: " + some(", ", what, orNothing("by ", terms.GetApprovedBy()), when(terms.GetApproveTime()))
	switch {
	case terms.GetBound():
		return line + "; that holds"
	case !offered(item):
		return line
	case terms.GetSame():
		return line + "; it is what was approved, and no longer bound" + orNothing(": ", terms.GetUnboundReason())
	}
	return line + "; no longer bound" + orNothing(": ", terms.GetUnboundReason())
}

// mostNamed is how many tools a command names one by one.
const mostNamed = 8

// writeHowToSign says what to type to decide about exactly this.
func writeHowToSign(t *sheet, s server, r *registryv1.GetReviewResponse) {
	digest := r.GetReview().GetDigest()
	if r.GetReview().GetStatus() != reviewPending {
		t.linef("Nothing is asked. To have it decided again: countersign server request-review %s", s.GetName())
		return
	}
	t.linef("To approve exactly this: %s", approveLine(s, r, digest))
	t.linef("To reject it: countersign server reject %s --digest %s --reason TEXT", s.GetName(), digest)
}

// approveLine is the command that approves what needs a look. Tools that were
// approved before have their class in it; of others somebody has to declare it.
func approveLine(s server, r *registryv1.GetReviewResponse, digest string) string {
	line := "countersign server approve " + s.GetName() + " --digest " + digest
	var tools []string
	for _, item := range r.GetTools() {
		if !item.GetNeedsLook() || !offered(item) || item.GetQuarantineReason() != "" {
			continue
		}
		class := word(item.GetTerms().GetDeclaredClass())
		if class == "" {
			class = "CLASS"
		}
		tools = append(tools, " --tool "+shellWord(item.GetDiff().GetName()+"="+class))
	}
	if len(tools) > mostNamed {
		tools = []string{" --all --class CLASS"}
	}
	line += strings.Join(tools, "")
	var others []string
	again := func(item reviewItem) bool {
		return item.GetNeedsLook() && offered(item) && item.GetTerms() != nil && item.GetQuarantineReason() == ""
	}
	for _, item := range slices.Concat(r.GetResources(), r.GetTemplates()) {
		if again(item) {
			others = append(others, " --resource "+shellWord(item.GetDiff().GetName()+"="+item.GetTerms().GetClassification()))
		}
	}
	for _, item := range r.GetPrompts() {
		if terms := item.GetTerms(); again(item) {
			others = append(others, " --prompt "+shellWord(item.GetDiff().GetName()+"="+some("", orNothing("skill:", terms.GetSkillId()), orNothing("step:", terms.GetWorkflowStepRef()))))
		}
	}
	if len(tools)+len(others) == 0 {
		line += " --empty"
	}
	return line + strings.Join(others, "")
}

// shellWord quotes a word for a shell, if that is needed.
func shellWord(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.:/=@%+,", r)
	}
	if !strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
