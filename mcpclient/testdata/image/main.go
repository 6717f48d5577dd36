// Command image is a server of the tests that needs no other file: it tells what
// it sees of the files around it.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var call struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		_ = json.Unmarshal(in.Bytes(), &call)
		switch call.Method {
		case "initialize":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"image","version":"1"}}}`+"\n", call.ID)
		case "tools/list":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]}}`+"\n", call.ID, look())
		}
	}
}

func look() []byte {
	var seen struct {
		Name   string   `json:"name"`
		Root   []string `json:"root"`
		Dir    string   `json:"dir"`
		Writes bool     `json:"writes"`
	}
	seen.Name = "image"
	entries, _ := os.ReadDir("/")
	for _, e := range entries {
		seen.Root = append(seen.Root, e.Name())
	}
	seen.Dir, _ = os.Getwd()
	seen.Writes = os.WriteFile("/data/written", nil, 0o600) == nil
	told, _ := json.Marshal(seen)
	return told
}
