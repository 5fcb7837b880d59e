#!/usr/bin/env bash
# Makes docs/page.png, README's picture of the page, from a real run: four peers, a job of which some tasks fail, and a machine that
# is lost meanwhile. Needs chromium-headless-shell (or chromium) and fonts-dejavu-core.
set -euo pipefail
cd "$(dirname "$0")/.."
COVEY_PICTURE=$PWD/docs/page.png go test -count 1 -tags long ./testnet -run 'ThePictureOfREADME$' -v
