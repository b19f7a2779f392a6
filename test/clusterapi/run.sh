#!/bin/bash
# run.sh [ARGUMENTS OF go test]: the Cluster API driver against Cluster API's
# real controllers, by itself and through Carafe's HTTP API. Builds what is
# missing (minutes, once per version); the tests start and end the bed.
# PACKAGES names what to test, if not all.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$("$here/build.sh")
export CARAFE_CLUSTERAPI_BIN="$bin"
cd "$here/../.."
# One package at a time: each has a bed of its own.
for package in ${PACKAGES:-./test/clusterapi ./test/clusterapi/api}; do
	go run ./test/withpostgres go test -tags clusterapi -count=1 -timeout 60m "$package" "$@"
done
