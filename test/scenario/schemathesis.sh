#!/bin/sh
# Fuzzes the API from its own description and fails on a 5xx, on an answer that
# the description does not allow, on a wrong input that is taken, and on a right
# one that is refused.
#
#   schemathesis.sh URL SECONDS TOKEN
#
# URL is that of a running Carafe without path, TOKEN one that it accepts. Every
# check is on; where one cannot hold, schemathesis.toml says why. The seed is
# fixed, so that a run can be repeated; CARAFE_FUZZ_SEED names another.
set -eu
url=$1 seconds=$2 token=$3
here=$(cd "$(dirname "$0")" && pwd)
bin=$("$here/client.sh" schemathesis)
cd "$(mktemp -d)" # it writes into the current directory
exec timeout --signal=INT "$((seconds + 60))" \
	"$bin/schemathesis" --config-file "$here/schemathesis.toml" run "$url/v1/openapi.json" \
	--url "$url" --header "X-Auth-Token: $token" --checks all \
	--phases examples,coverage,fuzzing,stateful --max-time "$seconds" --seed "${CARAFE_FUZZ_SEED:-1}" --continue-on-failure --no-color
