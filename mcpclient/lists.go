package mcpclient

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/registry"
)

// rawValue is JSON as it was sent.
type rawValue = jsontext.Value

// list is one kind of list.
type list struct {
	method     string
	capability string // that advertises it
	key        string // of the array in the result
	name       string // of the field that names an element
	quirk      quirk  // advertised, but unknown to the server
	put        func(*registry.Surface, [][]byte)
}

// toolsList comes first: it is the only one that a probe reads.
var toolsList = list{
	"tools/list", "tools", "tools", "name", "tools_list_unknown",
	func(s *registry.Surface, items [][]byte) { s.Tools = items },
}

var otherLists = []list{
	{
		"resources/list", "resources", "resources", "uri", "resources_list_unknown",
		func(s *registry.Surface, items [][]byte) { s.Resources = items },
	},
	{
		"resources/templates/list", "resources", "resourceTemplates", "uriTemplate", "templates_list_unknown",
		func(s *registry.Surface, items [][]byte) { s.Templates = items },
	},
	{
		"prompts/list", "prompts", "prompts", "name", "prompts_list_unknown",
		func(s *registry.Surface, items [][]byte) { s.Prompts = items },
	},
}

// readLists reads the tools list and, if all are wanted, the others, as far as
// the server advertises them. Tools are asked for as well when nothing at all
// is advertised.
func (v *visit) readLists(ctx context.Context, s *session, all bool) *registry.Error {
	lists := []list{toolsList}
	if all {
		lists = append(lists, otherLists...)
	}
	for _, l := range lists {
		advertised := slices.Contains(s.surface.Kinds, l.capability)
		if !advertised && (l.method != toolsList.method || len(s.surface.Kinds) > 0) {
			continue
		}
		items, quirks, fault := v.readList(ctx, s, l, advertised)
		if fault != nil {
			return fault
		}
		l.put(&s.surface, items)
		v.listed = v.listed || l.method == toolsList.method
		s.surface.Quirks = append(s.surface.Quirks, quirks...)
	}
	if s.noticed != nil {
		s.surface.Quirks = append(s.surface.Quirks, s.noticed()...)
	}
	slices.Sort(s.surface.Quirks)
	s.surface.Quirks = slices.Compact(s.surface.Quirks)
	return nil
}

// readList reads one list to its end. A cursor that the server does not know
// any more starts the list over, once.
func (v *visit) readList(ctx context.Context, s *session, l list, advertised bool) ([][]byte, []quirk, *registry.Error) {
	var quirks []quirk
	for again := true; ; again = false {
		r := reading{list: l, modern: EraOf(s.surface.ProtocolVersion) == EraModern, limits: v.limits, pages: map[[32]byte]bool{}, cursors: map[string]bool{}}
		fault := r.run(ctx, v, s)
		switch {
		case fault == nil:
			if r.emptyEnd {
				quirks = append(quirks, quirkEmptyCursor)
			}
			return r.items, quirks, nil
		case r.unknown:
			if advertised {
				quirks = append(quirks, l.quirk)
			}
			return nil, quirks, nil
		case r.expired && again:
			continue
		}
		return nil, nil, v.atLists(ctx, fault, l, r.page)
	}
}

// reading is one pass through one list.
type reading struct {
	list   list
	modern bool
	limits registry.Limits

	page     int // that is being read, from 1
	items    [][]byte
	pages    map[[32]byte]bool // that were seen
	cursors  map[string]bool   // that were used
	emptyEnd bool              // ended by an empty cursor, as before 2026-07-28
	unknown  bool              // the server does not know the method
	expired  bool              // the server does not know the cursor
}

func (r *reading) run(ctx context.Context, v *visit, s *session) *registry.Error {
	var cursor *string
	for r.page = 1; ; r.page++ {
		if r.page > r.limits.Pages {
			return registry.Errorf(registry.ReasonTooMany, "%s has more than %d pages", r.list.method, r.limits.Pages).
				With("limit_pages", strconv.Itoa(r.limits.Pages))
		}
		var params map[string]any
		if cursor != nil {
			params = map[string]any{"cursor": *cursor}
		}
		done := v.diary.step(r.list.method, r.page)
		m, size, fault := s.call(ctx, r.list.method, params)
		count := len(r.items)
		if fault == nil {
			cursor, fault = r.take(m, cursor)
		}
		done(len(r.items)-count, size, fault)
		if fault != nil || cursor == nil {
			return fault
		}
	}
}

// take takes one page and gives the next cursor, nil at the end.
func (r *reading) take(m message, asked *string) (*string, *registry.Error) {
	if m.fault != nil {
		r.unknown = asked == nil && m.fault.Code == codeMethodNotFound
		r.expired = asked != nil && m.fault.Code == codeInvalidParams
		return nil, rpcError(registry.ReasonListFailed, r.list.method+" is not to be had", m.fault)
	}
	fields, err := members(m.result, r.list.key, "nextCursor")
	if err != nil {
		return nil, r.malformed("the result of %s: %v", r.list.method, err)
	}
	raw := fields[r.list.key]
	switch {
	case raw == nil:
		return nil, r.malformed("the result of %s has no %q", r.list.method, r.list.key)
	case raw.Kind() != '[':
		return nil, r.malformed("%q of %s is no array", r.list.key, r.list.method)
	}
	items, err := elements(raw)
	if err != nil {
		return nil, r.malformed("%q of %s: %v", r.list.key, r.list.method, err)
	}
	for i, item := range items {
		if err := hasName(item, r.list.name); err != nil {
			return nil, r.malformed("element %d of %q on page %d: %v", i, r.list.key, r.page, err)
		}
	}
	r.items = append(r.items, items...)
	if len(r.items) > r.limits.Items {
		return nil, registry.Errorf(registry.ReasonTooMany, "%s has more than %d items", r.list.method, r.limits.Items).
			With("limit_items", strconv.Itoa(r.limits.Items)).With("seen_items", strconv.Itoa(len(r.items)))
	}
	next := fields["nextCursor"]
	if next == nil || next.Kind() == 'n' {
		return nil, nil
	}
	cursor, ok := text(next)
	switch {
	case !ok:
		return nil, r.malformed("nextCursor of %s is no string", r.list.method)
	case cursor == "" && !r.modern:
		// Only 2026-07-28 says that an empty cursor is one.
		r.emptyEnd = true
		return nil, nil
	case r.repeats(raw, len(items), cursor):
		return nil, registry.Errorf(registry.ReasonCursorLoop, "%s repeats itself on page %d", r.list.method, r.page)
	}
	return &cursor, nil
}

// repeats says whether a page that wants to be followed was seen before. Empty
// pages are alike, so they repeat only with their cursor. New content under an
// old cursor goes on, until a limit ends it.
func (r *reading) repeats(content []byte, items int, cursor string) bool {
	key := sha256.Sum256(content)
	seen := r.pages[key] && (items > 0 || r.cursors[cursor])
	r.pages[key], r.cursors[cursor] = true, true
	return seen
}

func (r *reading) malformed(format string, args ...any) *registry.Error {
	return registry.Errorf(registry.ReasonMalformedList, format, args...)
}

// hasName makes sure that an element is an object with a name. It takes the
// last of several names; that there are several is for others to judge.
func hasName(raw []byte, key string) error {
	var name string
	found := errors.New("it has no usable " + key)
	err := each(raw, func(k string, value rawValue) error {
		if k == key {
			name, _ = text(value)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case name == "":
		return found
	}
	return nil
}

// atLists words a fault as one of the phase of lists, in which the handshake is
// known to be fine.
func (v *visit) atLists(ctx context.Context, fault *registry.Error, l list, page int) *registry.Error {
	switch fault.Reason {
	case registry.ReasonAuthRequired, registry.ReasonForbidden, registry.ReasonRateLimited, registry.ReasonBlockedAddress,
		registry.ReasonTooLarge, registry.ReasonTooMany, registry.ReasonCursorLoop, registry.ReasonMalformedList, registry.ReasonListFailed:
	default:
		cause, message := fault.Reason, fault.Message
		if ctx.Err() != nil && fault.Reason == registry.ReasonTimeout {
			late := registry.Errorf(registry.ReasonTimeout, "it was not complete within %s", v.limits.Lists)
			late.Facts = fault.Facts
			fault = v.pulse.late(ctx, late, v.limits.Lists)
			cause, message = fault.Reason, fault.Message
		}
		facts, next := slices.DeleteFunc(fault.Facts, func(d registry.Detail) bool { return d.Key == "phase" }), fault.Next
		fault = registry.Errorf(registry.ReasonListFailed, "the handshake is fine, but %s is not to be had: %s", l.method, strings.TrimSuffix(message, "."))
		fault.Facts, fault.Next = facts, next
		fault.With("cause", string(cause))
	}
	return fault.With("phase", "lists").With("list", l.method).With("page", strconv.Itoa(page))
}
