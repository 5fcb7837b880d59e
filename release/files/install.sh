#!/bin/sh
# Installs peer @VERSION@ for one user, without root: checks the archive's SHA-256, and then copies the program.
#
#   ./install.sh                  from the release folder it is in
#   ./install.sh --from BASE      from that folder elsewhere: a path, file://…, https://…
#   ./install.sh --version V      that version, if the folder has several
#   ./install.sh --to DIR         into DIR instead of ~/.local/bin
set -eu
version=@VERSION@ from=$(dirname "$0") to=$HOME/.local/bin

die() { echo "install.sh: $*" >&2; exit 1; }

while [ $# -gt 0 ]; do
  case "$1" in
    --from) from=${2:?} && shift 2 ;;
    --version) version=${2:?} && shift 2 ;;
    --to) to=${2:?} && shift 2 ;;
    *) die "unknown word $1; there are --from, --version and --to" ;;
  esac
done

case $(uname -s) in
  Linux) system=linux ;;
  Darwin) system=darwin ;;
  *) die "there is no archive for $(uname -s) here; unpack the one for your system by hand" ;;
esac
case $(uname -m) in
  x86_64 | amd64) arch=amd64 ;;
  aarch64 | arm64) arch=arm64 ;;
  *) die "there is no archive for $(uname -m); build it: CGO_ENABLED=0 go build ./cmd/peer" ;;
esac
name=covey-$version-$system-$arch

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for file in SHA256SUMS "$name.tar.gz"; do
  case $from in
    http://* | https://*) curl --fail --silent --show-error --location -o "$tmp/$file" "$from/$file" || die "cannot get $from/$file" ;;
    *) cp "${from#file://}/$file" "$tmp/$file" || die "cannot get $from/$file" ;;
  esac
done

cd "$tmp"
grep "  $name.tar.gz\$" SHA256SUMS >sum || die "SHA256SUMS does not name $name.tar.gz"
if command -v sha256sum >/dev/null; then sha256sum -c sum >/dev/null; else shasum -a 256 -c sum >/dev/null; fi ||
  die "$name.tar.gz is not what SHA256SUMS says: nothing was installed"
tar xzf "$name.tar.gz"
cd - >/dev/null

mkdir -p "$to"
cp "$tmp/$name/peer" "$to/peer.new"
chmod 755 "$to/peer.new"
mv "$to/peer.new" "$to/peer" # whole or not at all, also while one runs
echo "installed $("$to/peer" --version) as $to/peer"
case :$PATH: in *":$to:"*) ;; *) echo "$to is not in your PATH: add it, or type $to/peer" ;; esac
