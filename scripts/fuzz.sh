#!/usr/bin/env bash
# Fuzzes tests of registry/ one after the other: scripts/fuzz.sh TIME NAME… Fails when an input breaks one.
set -euo pipefail

time=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for name; do
  for attempt in 1 2 3; do
    if go test ./registry -run='^$' -fuzz="^Fuzz$name\$" -fuzztime="$time" -fuzzminimizetime=1x 2>&1 | tee "$log"; then continue 2; fi
    # Before Go 1.27 a fuzzer at times takes its own deadline for a failure (go.dev/issue/75804): then no input failed.
    if grep -q 'Failing input' "$log" || ! grep -q 'context deadline exceeded' "$log"; then exit 1; fi
    echo "attempt $attempt ended at its deadline, without a failing input" >&2
  done
  exit 1
done
