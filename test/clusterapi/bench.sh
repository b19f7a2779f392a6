#!/bin/bash
# bench.sh: one look at the objects of a thousand clusters: its time, its calls
# and its memory. Needs no controllers.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$("$here/build.sh" etcd kube-apiserver kube-controller-manager)
export CARAFE_CLUSTERAPI_BIN="$bin"
cd "$here/../.."
exec go test -tags clusterapi -count=1 -timeout 30m -run '^$' -bench ObserveAll -benchtime 1x ./test/clusterapi "$@"
