#!/usr/bin/env bash
# The table "On one machine" of comparison.md, measured here: each row in turns, seconds, and the load when the row begins. What is not installed is left out.
#   apt-get install parallel xjobs pdsh clustershell task-spooler nq; go install github.com/shenwei356/rush@latest
#   docs/speed.sh [ROUNDS [TASKS]]
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-2} n=${2:-1000} dir=$(mktemp -d)
go build -trimpath -ldflags '-s -w' -o "$dir/peer" ./cmd/peer
export PEER_DATA=$dir/data PEER_LISTEN=127.0.0.1:0 PEER_NO_MDNS=true TS_SOCKET=$dir/tsp TMPDIR=$dir NQDIR=$dir/nq PATH=$dir:$PATH
nets=()
finish() {
  peer down || true
  if has tsp; then tsp -K; fi
  kill -INT "${nets[@]}" && wait "${nets[@]}"
  rm -rf "$dir"
} 2>/dev/null
has() { command -v "$1" >/dev/null; }
timed() { # WHAT COMMAND…
  local what=$1 load begin end; shift
  read -r load _ </proc/loadavg
  begin=$(date +%s%N); "$@" >/dev/null 2>&1 </dev/null; end=$(date +%s%N)
  awk -v w="$what" -v t=$((end - begin)) -v l="$load" 'BEGIN { printf "%-38s %8.3f s   load %s\n", w, t / 1e9, l }'
}
memory() { # WHAT PATTERN: what processes with it in their command line have in memory, and of that what no file backs
  local pid rss=0 anon=0 r a
  for pid in $(pgrep -f "$2"); do
    r=$(awk '/^VmRSS/ { print $2 }' "/proc/$pid/status") a=$(awk '/^RssAnon/ { print $2 }' "/proc/$pid/status")
    rss=$((rss + r)) anon=$((anon + a))
  done
  printf '%-38s %8d KiB, %d of them its own\n' "$1" $rss $anon
}
queued() { for ((i = 0; i < $1; i++)); do tsp true; done; while tsp -l | grep -q 'running\|queued'; do sleep 0.01; done; }
nqueued() { mkdir -p "$NQDIR"; for ((i = 0; i < $1; i++)); do nq -q true; done; nq -w; rm -rf "$NQDIR"; }
lines() { seq "$1" | "${@:2}"; }
trap finish EXIT

timed 'peer up: founds a cluster' peer up --detach
: >"$dir/talk"
peer testnet --dir "$dir/net" up -n 3 2>"$dir/talk" >&2 & nets+=($!)
until grep -q 'are up' "$dir/talk"; do sleep 0.1; done
if has tsp; then tsp -S 2; fi
for round in $(seq "$rounds"); do
  echo "round $round"
  peer down
  timed 'peer up: comes back' peer up --detach
  for k in 1 $n; do
    timed "$k: xargs -P2" lines $k xargs -P2 -n1 true
    if has parallel; then timed "$k: parallel -j2" parallel -j2 true ::: $(seq $k); fi
    if has xjobs; then timed "$k: xjobs -j2" lines $k xjobs -j2 true; fi
    if has rush; then timed "$k: rush -j2" lines $k rush -j2 true; fi
    if has pdsh; then timed "$k: pdsh -R exec -f2" pdsh -R exec -f2 -w "n[1-$k]" true; fi
    if has clush; then timed "$k: clush -R exec -f2" clush -R exec -f2 -w "n[1-$k]" true; fi
    if has tsp; then timed "$k: tsp, two at once" queued $k; fi
    if has nq; then timed "$k: nq, one after the other" nqueued $k; fi
    timed "$k: peer run, one peer" peer run --array 1-$k -- true
    timed "$k: peer run, three local peers" peer testnet --dir "$dir/net" exec 1 -- run --array 1-$k -- true
  done
done
sleep 30
echo 'after 30 s without work'
memory 'peer' "^$dir/peer up"
memory 'what starts its tasks' "supervise $PEER_DATA/"
if has tsp; then memory 'tsp' '^tsp -S 2'; fi
