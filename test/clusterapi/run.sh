#!/bin/bash
# run.sh [ARGUMENTS OF go test]: the Cluster API driver against Cluster API's
# real controllers. Builds what is missing (minutes, once per version), then
# runs the suite, which starts and ends the bed by itself.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$("$here/build.sh")
export CARAFE_CLUSTERAPI_BIN="$bin"
cd "$here/../.."
exec go test -tags clusterapi -count=1 -timeout 40m ./test/clusterapi "$@"
