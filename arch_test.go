// Package countersign_test holds what is true of the repository as a whole.
package countersign_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// arrows says which rooms the code of each room may import. A room is a folder of the repository with all below it.
var arrows = map[string][]string{
	"registry":  {},
	"failpoint": {},
	"proto":     {},
	"telemetry": {"registry"},
	"outbound":  {"registry", "telemetry"},
	"secrets":   {"registry"},
	"policy":    {"registry"},
	"mcpclient": {"registry", "outbound", "secrets", "telemetry"},
	"oauth":     {"registry", "outbound", "secrets"},
	"aep":       {"registry", "outbound"},
	"events":    {"registry", "outbound", "secrets", "telemetry"},
	"db":        {"registry", "failpoint", "telemetry"},
	"activities": {
		"registry", "db", "failpoint", "telemetry",
		"aep", "events", "mcpclient", "oauth", "policy", "secrets", // the rooms that do the work
	},
	"workflows": {"registry", "activities", "failpoint"},
	"api":       {"registry", "proto", "policy", "workflows", "db", "failpoint", "telemetry"},
	"worker":    {"registry", "workflows", "activities", "failpoint"},
	"console":   {},
	"mcptest":   {},
	"embedded":  {},
	"cmd": {
		"registry", "failpoint", "proto", "outbound", "secrets", "policy", "mcpclient", "oauth", "aep", "events", "db",
		"activities", "workflows", "api", "worker", "console", "mcptest", "embedded", "telemetry",
	},
}

// testArrows says what tests of every room may import besides.
var testArrows = []string{"db/dbtest", "embedded", "mcptest"}

// roomTests says what the tests of one room may import besides: a workflow is tested with its real activities on a real
// database.
var roomTests = map[string][]string{
	"api":        {"outbound"}, // whose guard asks the issuers of callers
	"workflows":  {"aep", "db", "mcpclient", "policy", "worker"},
	"worker":     {"aep", "db", "mcpclient", "outbound", "policy"},
	"oauth":      {"mcpclient"}, // whose credentials it makes
	"events":     {"db"},        // whose outbox it delivers
	"activities": {"outbound"},  // by whose clients its broker goes
}

// testsOnly are the packages that no program contains.
var testsOnly = []string{"db/dbtest"}

// owners says which rooms alone, tests included, may import the modules of others that begin so.
var owners = map[string][]string{
	"go.temporal.io/server":              {"embedded"},
	"github.com/temporalio/ui-server/v2": {"embedded"},
	"github.com/uptrace/bun":             {"db"},
}

// dialers are the folders whose code may open connections by itself: the guard, the command line client, which asks the
// API that its user named, Temporal in this process, what stands for strangers in tests and in the demo, and measurements,
// which call what they have started. Others are handed a guarded client.
var dialers = []string{"outbound/", "cmd/countersign/", "embedded/", "mcptest/", "cmd/internal/bench/"}

// dials are the ways to open a connection, or to ask for an address, without a guard: functions and variables, and types
// when a value of them is made, which is written {}.
var dials = map[string]*regexp.Regexp{
	"net":                    regexp.MustCompile(`^(Dial([A-Z].*)?|Dialer\{\}|Lookup[A-Z].*|DefaultResolver|Resolver\{\}|Resolve[A-Z]+[A-Z].*Addr)$`),
	"net/http":               regexp.MustCompile(`^(DefaultClient|DefaultTransport|Get|Head|Post|PostForm|Client\{\}|Transport\{\})$`),
	"net/http/httputil":      regexp.MustCompile(`^(NewSingleHostReverseProxy|ReverseProxy\{\})$`),
	"net/rpc":                regexp.MustCompile(`^Dial`),
	"net/rpc/jsonrpc":        regexp.MustCompile(`^Dial`),
	"net/smtp":               regexp.MustCompile(`^(Dial|SendMail)`),
	"log/syslog":             regexp.MustCompile(`^Dial`),
	"crypto/tls":             regexp.MustCompile(`^(Dial([A-Z].*)?|Dialer\{\})$`),
	"google.golang.org/grpc": regexp.MustCompile(`^(Dial([A-Z].*)?|NewClient)$`),
}

func TestRoomsImportOnlyWhatTheyMay(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		for _, imported := range f.imports {
			if why := forbidden(f.path, imported); why != "" {
				t.Errorf("%s imports %s: %s", f.path, imported, why)
			}
		}
		if r := room(f.path); r != "" && arrows[r] == nil {
			t.Errorf("%s is in room %s, which arrows does not list", f.path, r)
		}
	}
}

func TestTheArrowsAreGuarded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file, imports string
		allowed       bool
	}{
		{"registry/x.go", "countersign/db", false},
		{"db/x.go", "countersign/registry", true},
		{"db/migrations/x.go", "countersign/registry", true},
		{"db/x.go", "countersign/db/migrations", true},
		{"db/x.go", "countersign/db/dbtest", false},
		{"db/x_test.go", "countersign/db/dbtest", true},
		{"db/dbtest/withpostgres/main.go", "countersign/db/dbtest", true},
		{"cmd/countersign/main.go", "countersign/db/dbtest", false},
		{"registry/x_test.go", "countersign/mcptest", true},
		{"registry/x_test.go", "countersign/db", false},
		{"workflows/x_test.go", "countersign/db", true},
		{"workflows/x.go", "countersign/db", false},
		{"worker/x.go", "go.temporal.io/server/temporal", false},
		{"worker/x_test.go", "go.temporal.io/server/temporal", false},
		{"embedded/x.go", "go.temporal.io/server/temporal", true},
		{"api/x.go", "countersign/nowhere", false},
		{"x_test.go", "countersign/registry", false},
	} {
		if why := forbidden(c.file, c.imports); (why == "") != c.allowed {
			t.Errorf("%s importing %s: allowed is %t, want %t", c.file, c.imports, why == "", c.allowed)
		}
	}
}

func TestOnlyOutboundDials(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if f.test || slices.ContainsFunc(dialers, func(folder string) bool { return strings.HasPrefix(f.path, folder) }) {
			continue
		}
		for _, use := range uses(f) {
			t.Errorf("%s opens connections past outbound by %s", f.path, use)
		}
	}
}

// The rule against dialers bites, whatever the file calls the package and however a client is made.
func TestTheRuleAgainstDialersBites(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		`import "net"; var _, _ = net.Dial("tcp", "x:1")`:                                                 "net.Dial",
		`import "net"; var _, _ = net.DialTimeout("tcp", "x:1", 1)`:                                       "net.DialTimeout",
		`import "net"; var _, _ = net.DialTCP("tcp", nil, nil)`:                                           "net.DialTCP",
		`import "net"; var _ = net.Dialer{}`:                                                              "net.Dialer{}",
		`import "net"; var _ = (&net.Dialer{Timeout: 1}).DialContext`:                                     "net.Dialer{}",
		`import "net"; var _ = new(net.Dialer)`:                                                           "net.Dialer{}",
		`import "net"; var d net.Dialer`:                                                                  "net.Dialer{}",
		`import "net"; type own struct{ net.Dialer }`:                                                     "net.Dialer{}",
		`import n "net"; var _, _ = n.Dial("tcp", "x:1")`:                                                 "net.Dial",
		`import . "net"; var _, _ = Dial("tcp", "x:1")`:                                                   "net.*",
		`import "net"; var _, _ = net.LookupHost("x")`:                                                    "net.LookupHost",
		`import "net"; var _ = net.DefaultResolver`:                                                       "net.DefaultResolver",
		`import "net/http"; var _ = http.DefaultClient`:                                                   "net/http.DefaultClient",
		`import "net/http"; var _ = http.DefaultTransport`:                                                "net/http.DefaultTransport",
		`import "net/http"; var _, _ = http.Get("x")`:                                                     "net/http.Get",
		`import "net/http"; var _, _ = http.PostForm("x", nil)`:                                           "net/http.PostForm",
		`import "net/http"; var _ = &http.Client{}`:                                                       "net/http.Client{}",
		`import "net/http"; var _ = []http.Client{{}}`:                                                    "net/http.Client{}",
		`import "net/http"; func f() { var c http.Client; c.CloseIdleConnections() }`:                     "net/http.Client{}",
		`import "net/http"; var _ = new(http.Transport)`:                                                  "net/http.Transport{}",
		`import "net/http/httputil"; var _ = &httputil.ReverseProxy{}`:                                    "net/http/httputil.ReverseProxy{}",
		`import "crypto/tls"; var _, _ = tls.Dial("tcp", "x:1", nil)`:                                     "crypto/tls.Dial",
		`import "crypto/tls"; var _ = tls.Dialer{}`:                                                       "crypto/tls.Dialer{}",
		`import "google.golang.org/grpc"; var _, _ = grpc.NewClient("x:1")`:                               "google.golang.org/grpc.NewClient",
		`import "net/http"; type room struct{ HTTP *http.Client }; func f(c *http.Client) {}`:             "",
		`import "net/http"; var _ http.RoundTripper; var _ = http.NewServeMux`:                            "",
		`import "net"; var _, _ = net.Listen("tcp", "127.0.0.1:0"); var _ = net.IPNet{}`:                  "",
		`import "net/http"; func f(t http.RoundTripper) bool { _, ok := t.(*http.Transport); return ok }`: "",
	} {
		syntax, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+code, parser.SkipObjectResolution)
		if err != nil {
			t.Fatalf("%s: %v", code, err)
		}
		if got := strings.Join(uses(sourceOf(t, "x.go", syntax)), " "); got != want {
			t.Errorf("%s: found %q, want %q", code, got, want)
		}
	}
}

func TestPackagesSayWhatTheyAre(t *testing.T) {
	t.Parallel()
	says := map[string]bool{}
	for _, f := range sources(t) {
		if !f.test && !ast.IsGenerated(f.syntax) {
			says[path.Dir(f.path)] = says[path.Dir(f.path)] || f.syntax.Doc != nil
		}
	}
	for dir, ok := range says {
		if !ok {
			t.Errorf("package %s has no doc comment", dir)
		}
	}
}

// A promise whose test is gone is nobody's.
func TestThePageOnSecurityNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, f := range sources(t) {
		for _, decl := range f.syntax.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				known[f.Name.Name] = true
			}
		}
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 10 {
		t.Errorf("it names %d tests only", len(named))
	}
	for _, name := range named {
		if !known[name[1]] {
			t.Errorf("there is no %s", name[1])
		}
	}
}

// Each attack, and each thing to do against them, has a row, and each row the tests
// that show where it ends, or that it has an effect.
func TestEveryAttackHasATest(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	for heading, least := range map[string]int{"Attacks": 25, "Hardening": 10} {
		_, section, found := strings.Cut(string(page), "\n## "+heading+"\n")
		if !found {
			t.Fatalf("the page has no section %s", heading)
		}
		section, _, _ = strings.Cut(section, "\n## ")
		rows := 0
		for line := range strings.Lines(section) {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			if len(cells) < 3 || strings.HasPrefix(cells[0], "---") || strings.TrimSpace(cells[len(cells)-1]) == "test" {
				continue
			}
			if rows++; !strings.Contains(cells[len(cells)-1], "`Test") {
				t.Errorf("%s: no test shows this: %s", heading, strings.TrimSpace(cells[0]))
			}
		}
		if rows < least {
			t.Errorf("%s has %d rows only", heading, rows)
		}
	}
}

// The code that the tools generate calls the modules that the product links.
func TestToolsFitTheProduct(t *testing.T) {
	t.Parallel()
	product, tools := required(t, "go.mod"), required(t, "tools/go.mod")
	for _, module := range []string{
		"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go",
		"connectrpc.com/connect",
		"google.golang.org/genproto/googleapis/api",
		"google.golang.org/protobuf",
	} {
		if product[module] == "" || product[module] != tools[module] {
			t.Errorf("%s is %q in go.mod and %q in tools/go.mod", module, product[module], tools[module])
		}
	}
}

// forbidden says why a file may not import a package, or nothing.
func forbidden(file, imported string) string {
	from, test := room(file), strings.HasSuffix(file, "_test.go")
	for module, rooms := range owners {
		if (imported == module || strings.HasPrefix(imported, module+"/")) && !slices.Contains(rooms, from) {
			return fmt.Sprintf("only %v may", rooms)
		}
	}
	ours, ok := strings.CutPrefix(imported, "countersign/")
	if !ok {
		return ""
	}
	for _, support := range testsOnly {
		if ours == support && !test && !strings.HasPrefix(file, support+"/") {
			return "it is for tests only"
		}
	}
	if to := room(ours + "/"); to == from || slices.Contains(arrows[from], to) || test && (slices.Contains(testArrows, ours) || slices.Contains(roomTests[from], to)) {
		return ""
	}
	return fmt.Sprintf("%q may import %v", from, arrows[from])
}

// room returns the first folder of a slash-separated path, which is empty for a file at the top.
func room(file string) string {
	first, _, below := strings.Cut(file, "/")
	if !below {
		return ""
	}
	return first
}

// source is one Go file of the product.
type source struct {
	path    string // from the root of the repository
	test    bool
	imports []string
	syntax  *ast.File
}

// sources parses every Go file of this module, whatever its build constraints.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if base := path.Base(name); name != "." && (base[0] == '.' || base[0] == '_' || base == "testdata" || base == "node_modules") {
				return fs.SkipDir
			}
			if _, err := os.Stat(path.Join(name, "go.mod")); err == nil && name != "." {
				return fs.SkipDir // a module of its own
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all = append(all, sourceOf(t, name, syntax))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func sourceOf(t *testing.T, name string, syntax *ast.File) source {
	t.Helper()
	f := source{path: name, test: strings.HasSuffix(name, "_test.go"), syntax: syntax}
	for _, i := range syntax.Imports {
		imported, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		f.imports = append(f.imports, imported)
	}
	return f
}

// uses lists what a file has of dials.
func uses(f source) []string {
	packages := map[string]string{} // by the name that the file gives them
	for i, imported := range f.imports {
		name := path.Base(imported)
		if alias := f.syntax.Imports[i].Name; alias != nil {
			name = alias.Name
		}
		packages[name] = imported
	}
	found := map[string]bool{}
	if imported := packages["."]; dials[imported] != nil {
		found[imported+".*"] = true // its names could be anything
	}
	look := func(n ast.Node, suffix string) {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return
		}
		if pkg, ok := selector.X.(*ast.Ident); ok {
			imported := packages[pkg.Name]
			if ways := dials[imported]; ways != nil && ways.MatchString(selector.Sel.Name+suffix) {
				found[imported+"."+selector.Sel.Name+suffix] = true
			}
		}
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		look(n, "")
		switch n := n.(type) { // where a value of a type is made
		case *ast.CompositeLit:
			look(n.Type, "{}")
		case *ast.ValueSpec:
			look(n.Type, "{}")
		case *ast.Field: // of a struct; a parameter of such a type has to be made somewhere too
			look(n.Type, "{}")
		case *ast.ArrayType:
			look(n.Elt, "{}")
		case *ast.MapType:
			look(n.Value, "{}")
		case *ast.CallExpr:
			if made, ok := n.Fun.(*ast.Ident); ok && made.Name == "new" && len(n.Args) == 1 {
				look(n.Args[0], "{}")
			}
		}
		return true
	})
	return slices.Sorted(maps.Keys(found))
}

var requirement = regexp.MustCompile(`(?m)^\t(\S+) (v\S+)`)

// required returns the versions in a go.mod file, by module.
func required(t *testing.T, name string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, match := range requirement.FindAllStringSubmatch(string(text), -1) {
		versions[match[1]] = match[2]
	}
	return versions
}
