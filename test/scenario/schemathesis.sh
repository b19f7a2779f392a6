#!/bin/sh
# Fuzzes the API from its own description, with every check on, and fails on a
# 5xx, on an answer that the description does not allow, and on a wrong input
# that is taken.
#
#   schemathesis.sh URL SECONDS
#
# URL is that of a running Carafe without path. What it found is in the report
# directory that SCHEMATHESIS_REPORT names, if it is set.
set -eu
url=$1
seconds=$2
here=$(cd "$(dirname "$0")" && pwd)
bin=$("$here/client.sh" schemathesis)
exec timeout --signal=INT "$((seconds + 60))" \
	"$bin/schemathesis" run "$url/v1/openapi.json" \
	--url "$url" --checks all --phases examples,coverage,fuzzing,stateful \
	--max-time "$seconds" --continue-on-failure --no-color ${SCHEMATHESIS_REPORT:+--report junit --report-dir "$SCHEMATHESIS_REPORT"}
