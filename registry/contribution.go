package registry

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Contribution is one tool that an extension contributes to the catalog: the id
// and the words are its descriptor's, all else is what the MCP server says
// (R103, R106).
type Contribution struct {
	TenantID    string `json:"tenantId" bun:"tenant_id,pk"`
	ProviderID  string `json:"providerId" bun:"provider_id,pk"`
	ID          string `json:"id" bun:"contribution_id,pk"` // the external id of the tool
	Server      string `json:"server" bun:"server_external_id"`
	Tool        string `json:"tool" bun:"mcp_tool"` // its name at the MCP server
	DisplayName string `json:"displayName" bun:"display_name"`
	Description string `json:"description" bun:"description"` // empty: what the MCP server says
}

// ContributionKey is the key of _meta that names, in the definition of a
// contributed tool, the tool of the MCP server behind it, with the server's own
// words where the descriptor has others. It is part of the tool's behaviour: who
// approves a contribution approves this tool, and not another of the same schema.
const ContributionKey = "countersign/contribution"

// contributed is the value of ContributionKey.
type contributed struct {
	Tool        string          `json:"tool"`
	Title       json.RawMessage `json:"title,omitempty"`
	Description json.RawMessage `json:"description,omitempty"`
}

// Contributed gives the surface as an extension contributes it: of the tools
// those that contributions name, each under the contribution's id and with its
// words. One that the server does not list is missing. A faulty tool keeps its
// fault, and an element without a usable name stays what it is, so that it
// refuses the list.
func (surface Surface) Contributed(contributions []Contribution) Surface {
	tools := surface.Tools
	surface.Tools = make([][]byte, 0, len(contributions))
	for _, raw := range tools {
		members, name, ok := takeApart(raw)
		if !ok || name == "" {
			surface.Tools = append(surface.Tools, raw)
			continue
		}
		for i := range contributions {
			if c := &contributions[i]; c.Tool == name {
				surface.Tools = append(surface.Tools, c.compose(members))
			}
		}
	}
	return surface
}

// sent is one member of a JSON object, as it was sent.
type sent struct {
	key   string
	name  []byte // the key with its quotes
	value json.RawMessage
}

// takeApart gives the members of an object in their order, also those that
// occur twice, and the last string that is called name.
func takeApart(raw []byte) (members []sent, name string, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil, "", false
	}
	for decoder.More() {
		token, err := decoder.Token()
		key, isKey := token.(string)
		if err != nil || !isKey {
			return nil, "", false
		}
		m := sent{key: key}
		if m.name, err = json.Marshal(key); err != nil {
			return nil, "", false
		}
		if err := decoder.Decode(&m.value); err != nil {
			return nil, "", false
		}
		if key == "name" {
			if err := json.Unmarshal(m.value, &name); err != nil {
				name = ""
			}
		}
		members = append(members, m)
	}
	return members, name, true
}

// compose writes the definition of the contributed tool. What stands twice in the
// server's own is written twice, so that its fault is seen.
func (c *Contribution) compose(members []sent) []byte {
	origin := contributed{Tool: c.Tool}
	replaced := map[string]bool{}
	var meta []sent
	count := map[string]int{}
	for _, m := range members {
		count[m.key]++
	}
	for _, m := range members {
		if count[m.key] > 1 {
			continue
		}
		switch m.key {
		case "name":
			replaced["name"] = true
		case "title":
			origin.Title, replaced["title"] = m.value, true
		case "description":
			if c.Description != "" {
				origin.Description, replaced["description"] = m.value, true
			}
		case "_meta":
			if own, _, isObject := takeApart(m.value); isObject {
				meta, replaced["_meta"] = own, true
			}
		}
	}
	out := []byte{'{'}
	add := func(name, value []byte) {
		out = append(append(append(comma(out), name...), ':'), value...)
	}
	for _, m := range members {
		if !replaced[m.key] {
			add(m.name, m.value)
		}
	}
	inner := []byte{'{'}
	for _, m := range meta {
		if m.key != ContributionKey {
			inner = append(append(append(comma(inner), m.name...), ':'), m.value...)
		}
	}
	value, _ := json.Marshal(origin) //nolint:errchkjson // strings, and JSON that was read
	inner = append(comma(inner), `"`+ContributionKey+`":`...)
	inner = append(append(inner, value...), '}')
	add([]byte(`"_meta"`), inner)
	if c.Description != "" {
		add([]byte(`"description"`), appendString(nil, c.Description))
	}
	add([]byte(`"title"`), appendString(nil, c.DisplayName))
	add([]byte(`"name"`), appendString(nil, c.ID)) // last: of two names the last one counts
	return append(out, '}')
}

// Origins gives, by contribution id, the tool of the MCP server.
func Origins(contributions []Contribution) map[string]string {
	out := make(map[string]string, len(contributions))
	for _, c := range contributions {
		out[c.ID] = c.Tool
	}
	return out
}

// Of gives the contributions of one of the extension's servers.
func Of(contributions []Contribution, server string) []Contribution {
	return slices.DeleteFunc(slices.Clone(contributions), func(c Contribution) bool { return c.Server != server })
}
