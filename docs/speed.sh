#!/usr/bin/env bash
# 2,000 × true on this machine: GNU parallel, and `peer run` on one and on three local peers, in turns. Seconds, and the load at the start of each.
#   docs/speed.sh [ROUNDS]
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3} n=2000 dir=$(mktemp -d)
go build -o "$dir/peer" ./cmd/peer
nets=()
trap 'kill -INT "${nets[@]}" 2>/dev/null; wait; rm -rf "$dir"' EXIT
for k in 1 3; do
  "$dir/peer" testnet --dir "$dir/net$k" up -n "$k" 2>"$dir/talk$k" >&2 & nets+=($!)
  until grep -q 'are up' "$dir/talk$k"; do sleep 0.1; done
done
timed() { # WHAT COMMAND…
  local what=$1 load begin end; shift
  read -r load _ </proc/loadavg
  begin=$(date +%s%N); "$@" >/dev/null 2>&1; end=$(date +%s%N)
  awk -v w="$what" -v t=$((end - begin)) -v l="$load" 'BEGIN { printf "%-28s %6.2f s   load %s\n", w, t / 1e9, l }'
}
for _ in $(seq "$rounds"); do
  timed 'parallel -j2' parallel -j2 true ::: $(seq $n)
  timed 'peer run, one peer' "$dir/peer" testnet --dir "$dir/net1" exec 1 -- run --array 1-$n -- true
  timed 'peer run, three peers' "$dir/peer" testnet --dir "$dir/net3" exec 1 -- run --array 1-$n -- true
done
