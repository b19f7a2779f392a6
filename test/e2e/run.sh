#!/bin/bash
# All tests against a real OpenStack: starts one (see cloud.py), runs the tests
# that have the build tag openstack, and stops it. Arguments go to `go test`.
set -eu
cd "$(dirname "$0")/../.."
python=$(command -v python3) || { echo 'run.sh: python3 is not installed (apt-get install python3 python3-venv)' >&2; exit 1; }
state=$(mktemp -d "${TMPDIR:-/tmp}/carafe-openstack-XXXXXX")
trap '"$python" test/e2e/cloud.py down "$state"; rm -rf "$state"' EXIT
"$python" test/e2e/cloud.py up "$state"
export CARAFE_E2E_CLOUD=$state/cloud.json
# one package at a time: they stop and start services
go run ./test/withpostgres go test -tags openstack -count=1 -p 1 -timeout 40m -run Real "$@" \
	./shared/keystone ./shared/nova ./shared/neutron ./shared/glance ./shared/barbican ./shared/openstack ./test/e2e
