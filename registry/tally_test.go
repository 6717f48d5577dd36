package registry_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"countersign/registry"
)

func signed(subject string, roles ...registry.Role) registry.Vote {
	return registry.Vote{Verb: registry.VerbApprove, Review: "r", Content: "c", Subject: subject, Roles: roles}
}

func said(verb registry.Verb, subject string) registry.Vote {
	return registry.Vote{Verb: verb, Review: "r", Subject: subject}
}

func TestApprovalsAreCollectedUntilTheVerdictIsMet(t *testing.T) {
	t.Parallel()
	const admin, maintainer = registry.RolePlatformAdmin, registry.RoleAssetMaintainer
	publication := registry.ApprovalVerdict{
		Review: "r", Content: "c", Requester: "ann", Needed: 2, DistinctFromRequester: true, Roles: map[registry.Role]int{admin: 1},
	}
	elsewhere := func(review, content string) registry.Vote {
		v := signed("bob", maintainer)
		v.Review, v.Content = review, content
		return v
	}
	for name, c := range map[string]struct {
		votes []registry.Vote
		want  registry.TallyStatus
		says  string
	}{
		"nobody yet":                              {nil, registry.TallyNeeds, "2 more approvals are needed, 1 by a PlatformAdmin, not by ann"},
		"one":                                     {[]registry.Vote{signed("bob", maintainer)}, registry.TallyNeeds, "1 more approval is needed, 1 by a PlatformAdmin, not by ann"},
		"the administrator first":                 {[]registry.Vote{signed("cleo", admin)}, registry.TallyNeeds, "1 more approval is needed, not by ann"},
		"two, one of them an administrator":       {[]registry.Vote{signed("bob", maintainer), signed("cleo", admin)}, registry.TallyApproved, "approved by bob, cleo"},
		"two without one":                         {[]registry.Vote{signed("bob", maintainer), signed("dan", maintainer)}, registry.TallyNeeds, "1 more approval is needed, 1 by a PlatformAdmin, not by ann"},
		"three":                                   {[]registry.Vote{signed("bob"), signed("dan"), signed("cleo", admin, admin)}, registry.TallyApproved, "approved by bob, dan, cleo"},
		"one of them twice":                       {[]registry.Vote{signed("cleo", admin), signed("cleo", admin)}, registry.TallyNeeds, "1 more approval is needed, not by ann"},
		"the requester is one":                    {[]registry.Vote{signed("ann", admin), signed("bob", admin)}, registry.TallyNeeds, "1 more approval is needed, not by ann"},
		"one of something else":                   {[]registry.Vote{elsewhere("r", "d"), signed("cleo", admin)}, registry.TallyNeeds, "1 more approval is needed, not by ann"},
		"one before it changed":                   {[]registry.Vote{elsewhere("q", "c"), signed("cleo", admin)}, registry.TallyNeeds, "1 more approval is needed, not by ann"},
		"one who then approved something else":    {[]registry.Vote{signed("bob"), signed("cleo", admin), elsewhere("r", "d")}, registry.TallyNeeds, "1 more approval is needed, not by ann"},
		"one who had approved something else":     {[]registry.Vote{elsewhere("r", "d"), signed("bob"), signed("cleo", admin)}, registry.TallyApproved, "approved by bob, cleo"},
		"one who is no administrator any more":    {[]registry.Vote{signed("cleo", admin), signed("bob"), signed("cleo", maintainer)}, registry.TallyNeeds, "1 more approval is needed, 1 by a PlatformAdmin, not by ann"},
		"a rejection":                             {[]registry.Vote{signed("bob"), said(registry.VerbReject, "eve"), signed("cleo", admin)}, registry.TallyRefused, "refused: this digest was rejected by eve"},
		"a rejection of something else":           {[]registry.Vote{{Verb: registry.VerbReject, Review: "q", Subject: "eve"}, signed("bob"), signed("cleo", admin)}, registry.TallyApproved, "approved by bob, cleo"},
		"a rejection, and then another review":    {[]registry.Vote{signed("bob"), said(registry.VerbReject, "eve"), said(registry.VerbRequestReview, "ann"), signed("cleo", admin)}, registry.TallyNeeds, "1 more approval is needed, not by ann"},
		"another review, whole":                   {[]registry.Vote{said(registry.VerbReject, "eve"), said(registry.VerbRequestReview, "ann"), signed("bob"), signed("cleo", admin)}, registry.TallyApproved, "approved by bob, cleo"},
		"another review voids what was before it": {[]registry.Vote{signed("bob"), said(registry.VerbRequestReview, "ann"), signed("cleo", admin)}, registry.TallyNeeds, "1 more approval is needed, not by ann"},
		"nobody's approval":                       {[]registry.Vote{signed(""), signed("cleo", admin)}, registry.TallyNeeds, "1 more approval is needed, not by ann"},
	} {
		got := publication.Tally(c.votes)
		if got.Status != c.want || got.String() != c.says {
			t.Errorf("%s: got %s (%s), want %s (%s)", name, got.Status, got, c.want, c.says)
		}
	}
}

func TestAVerdictThatSaysNothingRefuses(t *testing.T) {
	t.Parallel()
	votes := []registry.Vote{signed("bob", registry.Roles()...), signed("cleo", registry.Roles()...)}
	empty := registry.Vote{Verb: registry.VerbApprove, Subject: "bob"}
	for name, v := range map[string]registry.ApprovalVerdict{
		"zero":                   {},
		"nobody is needed":       {Review: "r", Content: "c"},
		"less than nobody":       {Review: "r", Content: "c", Needed: -1},
		"about no review":        {Content: "c", Needed: 1},
		"about no content":       {Review: "r", Needed: 1},
		"about no requester":     {Review: "r", Content: "c", Needed: 1, DistinctFromRequester: true},
		"one that refuses":       {Review: "r", Content: "c", Needed: 1, Refusal: &registry.PolicyRefusal{Reason: registry.ReasonPolicyError}},
		"one that lets nobody":   {Review: "r", Content: "c", Needed: 1, RestrictedBy: []string{"rule"}},
		"one that wants comment": {Review: "r", Content: "c", Needed: 1, CommentDemandedBy: []registry.CommentDemand{{Rule: "rule"}}},
	} {
		for _, list := range [][]registry.Vote{nil, votes, {empty}} {
			if got := v.Tally(list); got.Status == registry.TallyApproved {
				t.Errorf("%s: got %+v", name, got)
			}
		}
	}
	if d := (registry.CallVerdict{}).Denial(); d == nil || d.Reason != registry.ReasonPolicyError {
		t.Errorf("the zero verdict on a call: got %+v", d)
	}
	if d := (registry.CallVerdict{Allowed: true, Reason: registry.ReasonPolicyError}).Denial(); d == nil {
		t.Error("a verdict that failed allows")
	}
	if d := (registry.CallVerdict{Allowed: true}).Denial(); d != nil {
		t.Errorf("got %+v", d)
	}
}

func TestWhoCannotApproveIsToldWhy(t *testing.T) {
	t.Parallel()
	v := registry.ApprovalVerdict{
		Review: "r", Content: "c", Requester: "ann", Needed: 1, DistinctFromRequester: true, RestrictedBy: []string{"own"}, Eligible: []string{"ann", "bob"},
		Ineligible:        []registry.IneligibleVote{{Subject: "cleo", Rule: "own", Reason: registry.ReasonNotEligible}, {Subject: "dan", Rule: "own", Reason: registry.ReasonPolicyError, Message: "no such key"}},
		CommentDemandedBy: []registry.CommentDemand{{Rule: "hints", Message: "which ticket is it"}},
	}
	comment := func(vote registry.Vote, text string) registry.Vote {
		vote.Comment = text
		return vote
	}
	other := signed("bob")
	other.Content = "d"
	for name, c := range map[string]struct {
		vote registry.Vote
		want registry.Reason
		says string
	}{
		"somebody":         {comment(signed("bob"), "T-1"), "", ""},
		"no comment":       {signed("bob"), registry.ReasonCommentRequired, "this approval needs a comment: which ticket is it"},
		"a blank one":      {comment(signed("bob"), " \n"), registry.ReasonCommentRequired, "which ticket"},
		"the requester":    {comment(signed("ann"), "T-1"), registry.ReasonRequesterApproves, "may not give it"},
		"the owner":        {comment(signed("cleo"), "T-1"), registry.ReasonNotEligible, "rule own"},
		"a rule's failure": {comment(signed("dan"), "T-1"), registry.ReasonPolicyError, "rule own: no such key"},
		"a stranger":       {comment(signed("eve"), "T-1"), registry.ReasonNotEligible, "does not let you"},
		"something else":   {other, registry.ReasonSuperseded, "something else"},
	} {
		err := v.Admit(c.vote)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if registry.ReasonOf(err) != c.want || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	v.Refusal = &registry.PolicyRefusal{Reason: registry.ReasonPolicyDenied, Rule: "never", Message: "nobody may"}
	if e, ok := registry.AsError(v.Admit(signed("bob"))); !ok || e.Reason != registry.ReasonPolicyDenied || e.Fact("rule") != "never" {
		t.Errorf("got %v", e)
	}
}

func TestMoreVotesNeverTakeAnApprovalAway(t *testing.T) {
	t.Parallel()
	people := rapid.SampledFrom([]string{"ann", "bob", "cleo", "dan"})
	vote := rapid.Custom(func(t *rapid.T) registry.Vote {
		v := signed(people.Draw(t, "who"), rapid.SliceOfN(rapid.SampledFrom(registry.Roles()), 0, 2).Draw(t, "roles")...)
		v.Comment = rapid.SampledFrom([]string{"", "why"}).Draw(t, "comment")
		return v
	})
	rapid.Check(t, func(t *rapid.T) {
		v := registry.ApprovalVerdict{
			Review: "r", Content: "c", Requester: "ann", Needed: rapid.IntRange(1, 3).Draw(t, "needed"), DistinctFromRequester: rapid.Bool().Draw(t, "distinct"),
			Roles: rapid.MapOfN(rapid.SampledFrom(registry.Roles()), rapid.IntRange(1, 2), 0, 2).Draw(t, "roles"),
		}
		if rapid.Bool().Draw(t, "comment") {
			v.CommentDemandedBy = []registry.CommentDemand{{Rule: "x"}}
		}
		if rapid.Bool().Draw(t, "restricted") {
			v.RestrictedBy, v.Eligible = []string{"x"}, []string{"ann", "bob", "zoe"}
		}
		votes := rapid.SliceOfN(vote, 0, 5).Draw(t, "votes")
		another := vote.Draw(t, "another")
		another.Subject = "zoe"
		at := rapid.IntRange(0, len(votes)).Draw(t, "at")
		before, after := v.Tally(votes), v.Tally(slices.Insert(slices.Clone(votes), at, another))
		if before.Status == registry.TallyApproved && after.Status != registry.TallyApproved || after.People > before.People {
			t.Fatalf("before %s, after %s", before, after)
		}
		// One person more does not do the work of two.
		if after.Status == registry.TallyApproved && before.Status == registry.TallyNeeds && before.People > 1 {
			t.Fatalf("before %s, after %s", before, after)
		}
		if len(before.Counted) > 0 && slices.Contains(before.Counted, "ann") && v.DistinctFromRequester {
			t.Fatalf("the requester counts: %s", before)
		}
		if before.Status == registry.TallyApproved && len(slices.Compact(slices.Sorted(slices.Values(before.Counted)))) < v.Needed {
			t.Fatalf("too few people: %s", before)
		}
	})
}

func TestTwoPeopleApproveTheSameWhenEveryLineIs(t *testing.T) {
	t.Parallel()
	base := registry.Approval{
		Digest: "d", Tools: []registry.ToolLine{{Tool: "a", Class: registry.ClassRead}, {Tool: "b", Class: registry.ClassSandbox, Enable: true}},
		Resources: []registry.ResourceLine{{URI: "x"}, {URI: "y", Classification: "secret"}}, Prompts: []registry.PromptLine{{Prompt: "p", SkillID: "s"}, {Prompt: "q", SkillID: "s"}},
		ExceptionExpiresAt: time.Date(2026, 1, 1, 1, 0, 0, 0, time.FixedZone("", 3600)),
	}
	edit := func(change func(a *registry.Approval)) registry.Approval {
		a := base
		a.Tools, a.Resources, a.Prompts = slices.Clone(a.Tools), slices.Clone(a.Resources), slices.Clone(a.Prompts)
		change(&a)
		return a
	}
	same := map[string]registry.Approval{
		"another order": edit(func(a *registry.Approval) {
			slices.Reverse(a.Tools)
			slices.Reverse(a.Resources)
			slices.Reverse(a.Prompts)
		}),
		"a default":         edit(func(a *registry.Approval) { a.Resources[0].Classification = registry.DefaultClassification }),
		"another time zone": edit(func(a *registry.Approval) { a.ExceptionExpiresAt = a.ExceptionExpiresAt.UTC() }),
	}
	for name, a := range same {
		if a.ContentDigest() != base.ContentDigest() {
			t.Errorf("%s is another content", name)
		}
	}
	for name, a := range map[string]registry.Approval{
		"another review":         edit(func(a *registry.Approval) { a.Digest = "e" }),
		"another class":          edit(func(a *registry.Approval) { a.Tools[0].Class = registry.ClassPublication }),
		"one tool less":          edit(func(a *registry.Approval) { a.Tools = a.Tools[:1] }),
		"enabled, too":           edit(func(a *registry.Approval) { a.Tools[0].Enable = true }),
		"another descriptor":     edit(func(a *registry.Approval) { a.Tools[0].DescriptorID, a.Tools[0].DescriptorVersion = "x", 1 }),
		"another classification": edit(func(a *registry.Approval) { a.Resources[1].Classification = "public" }),
		"another skill":          edit(func(a *registry.Approval) { a.Prompts[0].SkillID = "t" }),
		"a later end":            edit(func(a *registry.Approval) { a.ExceptionExpiresAt = a.ExceptionExpiresAt.Add(time.Second) }),
		"the empty set":          {Digest: "d", Empty: true},
	} {
		if a.ContentDigest() == base.ContentDigest() {
			t.Errorf("%s is the same content", name)
		}
	}
	slices.Reverse(base.Tools)
	if before := base.Tools[0].Tool; before != "b" || base.ContentDigest() == "" || base.Tools[0].Tool != "b" {
		t.Error("the digest changes what it is made of")
	}
}

func TestDecisionsAreVotesUnlessTheyWereRefused(t *testing.T) {
	t.Parallel()
	a := registry.Approval{Digest: "r", Empty: true}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	got := registry.Votes([]registry.Decision{
		{DecisionID: "1", Verb: registry.VerbApprove, Digest: "r", Subject: "bob", Roles: []registry.Role{registry.RoleOperator}, Comment: "c", Approval: &a, DecidedAt: at},
		{DecisionID: "2", Verb: registry.VerbApprove, Digest: "r", Subject: "ann", Approval: &a, Reason: registry.ReasonRequesterApproves},
		{DecisionID: "3", Verb: registry.VerbReject, Digest: "r", Subject: "cleo", DecidedAt: at},
	})
	want := []registry.Vote{
		{DecisionID: "1", Verb: registry.VerbApprove, Review: "r", Content: a.ContentDigest(), Subject: "bob", Roles: []registry.Role{registry.RoleOperator}, Comment: "c", At: at},
		{DecisionID: "3", Verb: registry.VerbReject, Review: "r", Subject: "cleo", At: at},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAnApprovalThatExpiresHasDates(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	e := registry.Expiry{After: 180 * day, Recertify: 30 * day, Grace: 7 * day, Remind: []time.Duration{30 * day, day}}
	want := registry.ExpiryDates{
		RecertifyAt: at.AddDate(0, 0, 150), DueAt: at.AddDate(0, 0, 180), EndsAt: at.AddDate(0, 0, 187),
		Reminders: []time.Time{at.AddDate(0, 0, 150), at.AddDate(0, 0, 179)},
	}
	if diff := cmp.Diff(want, e.Dates(at)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(registry.ExpiryDates{}, registry.Expiry{}.Dates(at)); diff != "" {
		t.Error(diff)
	}
	never, short, graceful := registry.Expiry{}, registry.Expiry{After: 3 * day}, registry.Expiry{After: 2 * day, Grace: 2 * day}
	for _, c := range []struct {
		a, b registry.Expiry
		want bool
	}{{short, never, true}, {never, short, false}, {never, never, false}, {short, graceful, true}, {graceful, short, false}, {short, short, false}} {
		if c.a.Shorter(c.b) != c.want {
			t.Errorf("%+v shorter than %+v: want %t", c.a, c.b, c.want)
		}
	}
}

func TestReferencesOfPolicies(t *testing.T) {
	t.Parallel()
	for _, ref := range []string{"default", "payments", "payments@1", "a-b-1@999999", "0"} {
		if got, err := registry.ParsePolicyRef(ref); err != nil || got.String() != ref {
			t.Errorf("%s: got %s, %v", ref, got, err)
		}
	}
	for _, ref := range []string{
		"", "@1", "a@", "a@0", "a@-1", "a@01", "a@+1", "a@1@2", "a@1.0", "a@99999999999999999999", "A", "a b", "-a", "a-", "a_b", "ä", "a\n", strings.Repeat("a", 64),
	} {
		if got, err := registry.ParsePolicyRef(ref); registry.ReasonOf(err) != registry.ReasonUnknownPolicy {
			t.Errorf("%q: got %v, %v", ref, got, err)
		}
	}
}
