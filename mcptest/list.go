package mcptest

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// pageSpec is one page of a list in a script file.
type pageSpec struct {
	Items []json.RawMessage `json:"items"`
	Plain int               `json:"plain"` // so many plain items after Items
	Bytes int               `json:"bytes"` // each plain one at least so long
	Next  *string           `json:"next"`
	Raw   json.RawMessage   `json:"raw"`
}

// listSpec is a list in a script file.
type listSpec struct {
	pageSpec
	Cursors  map[string]pageSpec `json:"cursors"`
	Pages    []pageSpec          `json:"pages"`
	Endless  *endlessSpec        `json:"endless"`
	Versions []versionSpec       `json:"versions"`
	TTL      *int                `json:"ttlMs"`
	Reencode []string            `json:"reencode"`
}

// versionSpec is a list that is only answered at some times or to some clients.
type versionSpec struct {
	When when `json:"when"`
	listSpec0
}

// listSpec0 is a listSpec without versions of its own.
type listSpec0 struct {
	pageSpec
	Cursors map[string]pageSpec `json:"cursors"`
	Pages   []pageSpec          `json:"pages"`
}

type endlessSpec struct {
	Items  string `json:"items"`
	Cursor string `json:"cursor"`
	Size   int    `json:"size"`
}

var (
	endlessItems = []string{"none", "same", "new", "alternate"}
	endlessNexts = []string{"", "same", "new", "alternate"}
	reencodings  = []string{"order", "keys", "sets", "escapes", "numbers", "space"}
)

func oneOf(path, value string, of []string) error {
	if !slices.Contains(of, value) {
		return at(path, "%q is none of %q", value, of)
	}
	return nil
}

func (s *pageSpec) page(method string) Page {
	if s.Raw != nil {
		return Page{Raw: string(s.Raw)}
	}
	return Page{Items: slices.Concat(texts(s.Items), plain(method, 0, s.Plain, s.Bytes)), Next: s.Next}
}

// plain gives n plain items of a list, beginning with a number.
func plain(method string, from, n, size int) []string {
	out := make([]string, 0, n)
	for i := from; i < from+n; i++ {
		number := strconv.Itoa(i)
		name := strings.Repeat("0", max(4-len(number), 0)) + number
		var item string
		switch method {
		case "resources/list":
			item = `{"uri":"file:///` + name + `","name":"resource_` + name + `"}`
		case "resources/templates/list":
			item = `{"uriTemplate":"file:///` + name + `/{path}","name":"template_` + name + `"}`
		case "prompts/list":
			item = `{"name":"prompt_` + name + `"}`
		default:
			item = Tool("tool_" + name)
		}
		if missing := size - len(item) - len(`"_meta":{"pad":""},`); missing > 0 {
			item = `{"_meta":{"pad":"` + strings.Repeat("x", missing) + `"},` + item[1:]
		}
		out = append(out, item)
	}
	return out
}

func (s *listSpec0) list(path, method string) (List, error) {
	if s.Pages != nil && (s.Cursors != nil || s.Items != nil || s.Plain != 0 || s.Next != nil || s.Raw != nil) {
		return nil, at(path, "pages goes with none of items, plain, next, raw and cursors")
	}
	if s.Pages == nil {
		first := s.page(method)
		cursors := map[string]Page{}
		for cursor, page := range s.Cursors {
			cursors[cursor] = page.page(method)
		}
		if s.Cursors == nil {
			return func(Call) Page { return first }, nil
		}
		return Cursors(first, cursors), nil
	}
	pages := make([]Page, len(s.Pages))
	for i := range s.Pages {
		pages[i] = s.Pages[i].page(method)
		if pages[i].Next == nil && i+1 < len(pages) {
			pages[i].Next = new(strconv.Itoa(i + 1))
		}
	}
	return func(call Call) Page {
		n := 0
		if cursor := call.Cursor(); cursor != nil {
			n, _ = strconv.Atoi(*cursor)
		}
		if n < 0 || n >= len(pages) {
			return Page{}
		}
		return pages[n]
	}, nil
}

func (s *listSpec) list(path, method string) (List, error) {
	list, err := (&listSpec0{pageSpec: s.pageSpec, Cursors: s.Cursors, Pages: s.Pages}).list(path, method)
	if err != nil {
		return nil, err
	}
	if s.Endless != nil {
		if list, err = s.Endless.list(join(path, "endless"), method); err != nil {
			return nil, err
		}
	}
	if list, err = s.versions(path, method, list); err != nil {
		return nil, err
	}
	for _, how := range s.Reencode {
		if err := oneOf(join(path, "reencode"), how, reencodings); err != nil {
			return nil, err
		}
	}
	return func(call Call) Page {
		page := list(call)
		if s.TTL != nil {
			page.More = `"ttlMs":` + strconv.Itoa(*s.TTL) + `,"cacheScope":"private"`
		}
		if len(s.Reencode) > 0 {
			random := rand.New(rand.NewPCG(1, uint64(call.Nth))) //nolint:gosec // the same variants in every run
			page.Items = reencode(page.Items, s.Reencode, random)
		}
		return page
	}, nil
}

func (s *listSpec) versions(path, method string, otherwise List) (List, error) {
	type version struct {
		when when
		list List
	}
	all := make([]version, len(s.Versions))
	for i := range s.Versions {
		list, err := s.Versions[i].list(path+".versions["+strconv.Itoa(i)+"]", method)
		if err != nil {
			return nil, err
		}
		all[i] = version{s.Versions[i].When, list}
	}
	return func(call Call) Page {
		for _, v := range all {
			if v.when.match(call) {
				return v.list(call)
			}
		}
		return otherwise(call)
	}, nil
}

func (s *endlessSpec) list(path, method string) (List, error) {
	if err := oneOf(join(path, "items"), s.Items, endlessItems); err != nil {
		return nil, err
	}
	if err := oneOf(join(path, "cursor"), s.Cursor, endlessNexts); err != nil {
		return nil, err
	}
	size := max(s.Size, 1)
	return Endless(func(n int) []string {
		switch s.Items {
		case "same":
			return plain(method, 0, size, 0)
		case "new":
			return plain(method, n*size, size, 0)
		case "alternate":
			return plain(method, n%2*size, size, 0)
		default:
			return nil
		}
	}, func(n int) string {
		switch s.Cursor {
		case "same":
			return "again"
		case "new":
			return strconv.Itoa(n)
		case "alternate":
			return strconv.Itoa(n % 2)
		default:
			return ""
		}
	}), nil
}

// when says which calls are meant: those that satisfy every member that is set.
type when struct {
	First     int               `json:"first"` // only the first n calls of the method
	After     int               `json:"after"` // only the calls after the first n
	Every     int               `json:"every"` // only every nth
	Cursor    *string           `json:"cursor"`
	UserAgent string            `json:"userAgent" on:"http,sse"` // contained in it
	Lacks     map[string]string `json:"lacks"     on:"http,sse"` // headers that it has not with this value
	During    duration          `json:"during"`                  // from the server's start
	Since     duration          `json:"since"`
}

func (w *when) match(call Call) bool {
	cursor := call.Cursor()
	lacks := len(w.Lacks) == 0
	for name, value := range w.Lacks {
		has := call.Header.Get(name)
		if name == "Host" { // net/http keeps it apart; the port is not known beforehand
			has, _, _ = strings.Cut(call.Host, ":")
		}
		lacks = lacks || has != value
	}
	return (w.First == 0 || call.Nth <= w.First) &&
		call.Nth > w.After &&
		(w.Every == 0 || call.Nth%w.Every == 0) &&
		(w.Cursor == nil || cursor != nil && *cursor == *w.Cursor) &&
		strings.Contains(call.Header.Get("User-Agent"), w.UserAgent) &&
		lacks &&
		(w.During == 0 || call.At < time.Duration(w.During)) &&
		call.At >= time.Duration(w.Since)
}
