#!/usr/bin/env bash
# Runs the public conformance suite for MCP clients, which make has fetched into .cache/conformance, against
# cmd/internal/conformance: every scenario of the two revisions that matter, and of the extensions those about clients
# that no person stands behind. What is expected to fail stands in
# tools/conformance/baseline.yaml. Fails when anything else does, when an expected failure passes or occurs no more, and
# when the client ends badly, which the suite does not look at.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=.cache/conformance
baseline=tools/conformance/baseline.yaml

node=node
for pinned in "$cache"/node_modules/node-linux-*/bin/node; do
  if [[ -x $pinned ]]; then node=$pinned; fi
done
if ! "$node" -e 'process.exit(parseInt(process.versions.node) >= 22 ? 0 : 1)'; then
  echo "The conformance suite needs Node.js 22 or newer, which npm has for Linux only. This is $("$node" --version)." >&2
  exit 1
fi

go build -o "$cache/client" ./cmd/internal/conformance

# run REVISION runs the suite's scenarios of one revision.
run() {
  local log=$cache/$1.log results=$cache/$1 status=0 began=$SECONDS
  rm -rf "$results"
  "$node" --import ./tools/conformance/loopback.mjs "$cache/node_modules/@modelcontextprotocol/conformance/dist/index.js" client \
    --command "$cache/client" --suite all --spec-version "$1" --expected-failures "$baseline" --output-dir "$results" --verbose \
    >"$log" 2>"$results.err" || status=$?
  echo "$1: $(grep -c '^✓ ' "$log") scenarios pass, $(grep -c '^✗ ' "$log") fail, in $((SECONDS - began)) s"
  grep '^✓ ' "$log" || true
  if ((status)); then
    sed -n '/^Total: /,$p' "$log" | sed -e $'s/\e\\[[0-9;]*m//g' -e '/^  ~ /d'
    grep -q '^Total: ' "$log" || tail -n 5 "$results.err"
  else
    echo "✗ as expected: $(grep -c '^✗ auth/' "$log") of auth, $(sed -n '/^✗ auth/d; s/^✗ \(.*\): .*/\1/p' "$log" | paste -sd' ' -)"
  fi
  local dir said
  for dir in "$results"/*/ "$results"/auth/*/; do
    [[ -e $dir/stderr.txt ]] || continue
    said=$(head -n 1 "$dir/stderr.txt")
    case $dir$said in
    */auth/*'wants credentials (401)'* | */auth/*'do not offer the grant client_credentials'* | */auth/*'registers no client'* | \
      */auth/*'name another one'*) ;;
    */) [[ -s $dir/stdout.txt ]] || { status=1 && echo "the client did not end: $dir"; } ;;
    *) status=1 && echo "the client failed: $dir $said" ;;
    esac
  done
  return "$status"
}

failed=0
for revision in 2025-11-25 2026-07-28; do
  run "$revision" || failed=1
done

# The extensions are part of no revision, so each is asked for by its name.
for scenario in client-credentials-jwt client-credentials-basic wif-jwt-bearer; do
  if "$node" --import ./tools/conformance/loopback.mjs "$cache/node_modules/@modelcontextprotocol/conformance/dist/index.js" client \
    --command "$cache/client" --scenario "auth/$scenario" --output-dir "$cache/extensions" >"$cache/$scenario.log" 2>&1; then
    echo "✓ auth/$scenario: $(sed -n 's/^Passed: \([0-9]*\).*/\1/p' "$cache/$scenario.log") passed"
  else
    failed=1
    echo "✗ auth/$scenario" && tail -n 20 "$cache/$scenario.log"
  fi
done

gone=$(comm -23 <(sed -n 's/^  - \([^ ]*\).*/\1/p' "$baseline" | sort) <(cat "$cache"/*.log | sed -n 's/^  ~ //p' | sort -u))
if [[ -n $gone ]]; then
  failed=1
  echo "in $baseline, but failing nowhere:" $gone
fi
if ((failed)); then
  echo "not as expected; all that the suite says is in $cache/*.log" >&2
fi
exit "$failed"
