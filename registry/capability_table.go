package registry

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
)

// CapabilityTable is a checked capability table. It is never changed; nil is
// the table that knows nothing.
type CapabilityTable struct {
	servers  []KnownServer // by id, rows by key
	products map[string]*regexp.Regexp
	mentions CapabilityMentions
}

// CapabilityMentions are what a table asks about, each sorted: the facts that
// its rows need are those of the servers and tools named here.
type CapabilityMentions struct {
	Reported   []string
	Registered []string
	Tools      []string
}

// Bounds of what a table may say, in bytes.
const (
	maxCapabilityKey  = 128
	maxCapabilityText = 2048
)

var capabilityKey = regexp.MustCompile(`^[a-z0-9]+([._-][a-z0-9]+)*$`)

// NewCapabilityTable checks a table. The fields of its error are paths such as
// servers[0].capabilities[2].since.version.
func NewCapabilityTable(servers []KnownServer) (*CapabilityTable, error) {
	t := &CapabilityTable{products: map[string]*regexp.Regexp{}}
	e := Errorf(ReasonInvalidArgument, "the capability table is not valid")
	ids, keys := map[string]bool{}, map[string]bool{}
	for i, k := range servers {
		at := fmt.Sprintf("servers[%d]", i)
		if ids[k.ID] {
			e.WithField(at+".id", "there are two of the id %q", k.ID)
		}
		ids[k.ID] = true
		t.known(e, at, k)
		for j, row := range k.Rows {
			at := fmt.Sprintf("%s.capabilities[%d]", at, j)
			if keys[row.Key] {
				e.WithField(at+".key", "there are two of the key %q", row.Key)
			}
			keys[row.Key] = true
			checkRow(e, at, k, row)
		}
		k.Rows = slices.SortedFunc(slices.Values(k.Rows), func(a, b CapabilityRow) int { return cmp.Compare(a.Key, b.Key) })
		t.servers = append(t.servers, k)
	}
	if len(e.Fields) > 0 {
		return nil, e
	}
	slices.SortFunc(t.servers, func(a, b KnownServer) int { return cmp.Compare(a.ID, b.ID) })
	t.mentions = mentionsOf(t.servers)
	return t, nil
}

func (t *CapabilityTable) known(e *Error, at string, k KnownServer) {
	checkKey(e, at+".id", k.ID)
	checkText(e, at+".title", k.Title, true)
	if len(k.Reported)+len(k.Registered) == 0 {
		e.WithField(at+".match", "must name a reported or a registered name")
	}
	checkList(e, at+".match.reported", k.Reported)
	checkList(e, at+".match.registered", k.Registered)
	if k.Product != "" {
		product, err := regexp.Compile(k.Product)
		switch {
		case err != nil:
			e.WithField(at+".product", "is no regular expression: %v", err)
		case product.NumSubexp() != 1:
			e.WithField(at+".product", "must have exactly one group, around the version")
		default:
			t.products[k.ID] = product
		}
	}
	checkList(e, at+".foreign", k.Foreign)
	for i, pattern := range k.Foreign {
		if _, err := path.Match(pattern, ""); err != nil {
			e.WithField(fmt.Sprintf("%s.foreign[%d]", at, i), "is no pattern")
		}
	}
}

func checkRow(e *Error, at string, k KnownServer, row CapabilityRow) {
	checkKey(e, at+".key", row.Key)
	checkText(e, at+".feature", row.Feature, true)
	checkText(e, at+".note", row.Note, false)
	if !row.Available && row.Note == "" {
		e.WithField(at+".note", "must say why it is not available")
	}
	if s := row.Since; s != (Since{}) {
		switch {
		case !row.Available:
			e.WithField(at+".since", "is only for what is available")
		case !slices.Contains(Axes(), s.Axis):
			e.WithField(at+".since.axis", "must be server, product or protocol")
		case !s.Axis.readable(s.Version) && s.Axis == AxisProtocol:
			e.WithField(at+".since.version", "must be a protocol version such as 2026-07-28, not %q", s.Version)
		case !s.Axis.readable(s.Version):
			e.WithField(at+".since.version", "must be dotted numbers, not %q", s.Version)
		}
	}
	checkList(e, at+".gates", row.Gates)
	checkList(e, at+".requires_tools", row.RequiresTools)
	for i, name := range row.RequiresTools {
		notForeign(e, fmt.Sprintf("%s.requires_tools[%d]", at, i), k, name)
	}
	for i, name := range row.Gates {
		notForeign(e, fmt.Sprintf("%s.gates[%d]", at, i), k, name)
	}
	for i, a := range row.RequiresArgs {
		at := fmt.Sprintf("%s.requires_args[%d]", at, i)
		if a.Tool == "" || a.Arg == "" {
			e.WithField(at, "must name a tool and an argument")
		}
		if slices.Index(row.RequiresArgs, a) < i {
			e.WithField(at, "is there twice")
		}
		notForeign(e, at, k, a.Tool)
	}
}

func notForeign(e *Error, at string, k KnownServer, tool string) {
	if k.foreign(tool) {
		e.WithField(at, "%q is a foreign tool by the patterns of %s, and such decide nothing", tool, k.ID)
	}
}

func checkKey(e *Error, at, key string) {
	if len(key) > maxCapabilityKey || !capabilityKey.MatchString(key) {
		e.WithField(at, "must be 1 to %d of a-z and 0-9, parted by '.', '_' or '-', not %q", maxCapabilityKey, key)
	}
}

func checkText(e *Error, at, text string, required bool) {
	if len(text) > maxCapabilityText {
		e.WithField(at, "longer than %d bytes", maxCapabilityText)
	}
	if required && text == "" {
		e.WithField(at, "is required")
	}
}

func checkList(e *Error, at string, list []string) {
	for i, s := range list {
		switch {
		case s == "":
			e.WithField(fmt.Sprintf("%s[%d]", at, i), "is empty")
		case slices.Index(list, s) < i:
			e.WithField(fmt.Sprintf("%s[%d]", at, i), "%q is there twice", s)
		}
	}
}

func mentionsOf(servers []KnownServer) CapabilityMentions {
	reported, registered, tools := map[string]bool{}, map[string]bool{}, map[string]bool{}
	add := func(set map[string]bool, names ...string) {
		for _, name := range names {
			set[name] = true
		}
	}
	for _, k := range servers {
		add(reported, k.Reported...)
		add(registered, k.Registered...)
		for _, row := range k.Rows {
			add(tools, row.RequiresTools...)
			for _, a := range row.RequiresArgs {
				add(tools, a.Tool)
			}
		}
	}
	return CapabilityMentions{sortedKeys(reported), sortedKeys(registered), sortedKeys(tools)}
}

// Servers lists the servers that the table knows, by id, their rows by key. The
// list is not to be changed.
func (t *CapabilityTable) Servers() []KnownServer {
	if t == nil {
		return nil
	}
	return t.servers
}

// Mentions are what the table asks about.
func (t *CapabilityTable) Mentions() CapabilityMentions {
	if t == nil {
		return CapabilityMentions{}
	}
	return t.mentions
}

// fits says whether a server of these names is taken for this one.
func (k *KnownServer) fits(reported, registered string) bool {
	return (len(k.Reported) == 0 || slices.Contains(k.Reported, reported)) &&
		(len(k.Registered) == 0 || slices.Contains(k.Registered, registered))
}

// foreign says whether the server passes the tool on from others.
func (k *KnownServer) foreign(tool string) bool {
	return slices.ContainsFunc(k.Foreign, func(pattern string) bool {
		matched, err := path.Match(pattern, tool)
		return err == nil && matched
	})
}
