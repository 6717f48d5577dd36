#!/usr/bin/env bash
# Installs the published MCP servers that make e2e-real runs the product against, into .cache/realservers: from npm by
# the lock files in tools/realservers, and one from the Go module proxy. Needs npm and Go, Linux on amd64, and 1.2 GB.
set -euo pipefail
cd "$(dirname "$0")/.."
from=$PWD/tools/realservers to=$PWD/.cache/realservers

# fetch FOLDER: what a package.json names, into the same folder below .cache/realservers. No package runs a script.
fetch() {
  mkdir -p "$to/$1"
  cp "$from/$1"/package.json "$from/$1"/package-lock.json "$to/$1"
  echo "fetching from npm:"
  sed -n '/"dependencies"/,/}/ s/^ *"\(.*\)": "\(.*\)".*/  \1 \2/p' "$from/$1/package.json"
  npm --prefix "$to/$1" ci --ignore-scripts --no-audit --no-fund --loglevel=error
}

fetch .
fetch gitlab
echo "building from the Go module proxy:"
go -C "$from" list -f '  {{.Path}} {{.Version}}' -m github.com/mark3labs/mcp-go
go -C "$from" build -o "$to/mcp-go" github.com/mark3labs/mcp-go/examples/everything
touch "$to/ready"
