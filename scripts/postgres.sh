#!/usr/bin/env bash
# Runs a command, usually the tests, while a Postgres server of its own runs, which the tests find by the environment
# variable COUNTERSIGN_TEST_POSTGRES. Where that is set already, it only runs the command. Installs Postgres by apt if
# there is none.
set -euo pipefail

installed() { command -v initdb || compgen -G '/usr/lib/postgresql/*/bin/initdb'; } >/dev/null

packages=()
if [[ -z ${COUNTERSIGN_TEST_POSTGRES:-} ]] && ! installed; then packages+=(postgresql); fi
if [[ $(uname) == Linux ]] && ! command -v bwrap >/dev/null; then packages+=(bubblewrap); fi

if [[ ${#packages[@]} -gt 0 ]]; then
  install="apt-get update && apt-get install -y --no-install-recommends ${packages[*]}"
  root=()
  if [[ $EUID -ne 0 ]]; then root=(sudo -n); fi
  if ! command -v apt-get >/dev/null || ! "${root[@]}" true 2>/dev/null; then
    echo "The tests need Postgres 15 or newer and, on Linux, bubblewrap. Install them, on Debian as root: $install" >&2
    exit 1
  fi
  echo "The tests need ${packages[*]}, installing: $install" >&2
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive bash -ec "$install" >&2
fi

cd "$(dirname "$0")/.."
go build -o .cache/bin/withpostgres ./db/dbtest/withpostgres
exec .cache/bin/withpostgres "$@"
