#!/usr/bin/env bash
# Fuzzes tests of registry/, all at the same time, each on its share of the cores: scripts/fuzz.sh TIME NAME…
# Fails when an input breaks one.
set -euo pipefail

time=$1
shift
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
share=$(($(nproc) / $#))
go test -c -o /dev/null -fuzz=. ./registry # built once, for all

# fuzz NAME: until the time is over or an input fails.
fuzz() {
  for attempt in 1 2 3; do
    if go test ./registry -run='^$' -fuzz="^Fuzz$1\$" -fuzztime="$time" -fuzzminimizetime=1x -parallel=$((share > 0 ? share : 1)) 2>&1 |
      tee "$logs/$1" | sed -u "s/^/$1: /"; then return; fi
    # Before Go 1.27 a fuzzer at times takes its own deadline for a failure (go.dev/issue/75804): then no input failed.
    if grep -q 'Failing input' "$logs/$1" || ! grep -q 'context deadline exceeded' "$logs/$1"; then return 1; fi
    echo "$1: attempt $attempt ended at its deadline, without a failing input" >&2
  done
  return 1
}

running=()
for name; do
  fuzz "$name" &
  running+=($!)
done
failed=0
for pid in "${running[@]}"; do wait "$pid" || failed=1; done
exit "$failed"
