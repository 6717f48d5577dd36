#!/usr/bin/env bash
# Says where a Chromium is, and installs Debian's if there is none and we are root.
set -euo pipefail
found=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
if [[ -z $found ]]; then
  [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null || {
    echo "the tests of the console need a Chromium: install one, or name it by CHROMIUM" >&2
    exit 1
  }
  echo "installing Debian's chromium by apt, 100 MB" >&2
  apt-get update -qq >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >&2
  found=$(command -v chromium)
fi
echo "$found"
