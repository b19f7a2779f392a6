#!/bin/sh
# Checks an installed Carafe on a real cluster with Knative, from the outside:
#
#   smoke.sh URL [scenarios] [zero] [broker]
#
# URL is the API's as clients reach it, without path: http://api.carafe.example.org.
# It needs kubectl, curl and the openstack client. Without OS_AUTH_URL it speaks to an
# installation with noauth (overlays/demo); with it, it takes a token from that Keystone.
#
#   scenarios   templates, create, resize, node groups, upgrade, credentials and
#               certificates, delete: through the ingress
#   zero        idle functions go to zero, and one comes back for a request
#   broker      the broker's pods are killed while clusters are made: none is lost
#
# Settings: CARAFE_NAMESPACE (carafe), SMOKE_IMAGE, SMOKE_FLAVOR, SMOKE_NETWORK,
# SMOKE_TAG and SMOKE_NEXT_TAG (kube_tag of the templates), SMOKE_CLUSTERS (6, of the
# stage broker), SMOKE_WAIT (seconds for one operation, 300).
set -eu

url=${1:?usage: smoke.sh URL [scenarios] [zero] [broker]}
url=${url%/}
shift
[ $# -gt 0 ] || set -- scenarios zero broker

namespace=${CARAFE_NAMESPACE:-carafe}
image=${SMOKE_IMAGE:-ubuntu}
flavor=${SMOKE_FLAVOR:-m1.small}
network=${SMOKE_NETWORK:-public}
tag=${SMOKE_TAG:-v1.34.1}
next_tag=${SMOKE_NEXT_TAG:-v1.35.0}
clusters=${SMOKE_CLUSTERS:-6}
patience=${SMOKE_WAIT:-300}
run=smoke-$(date +%s)
dir=$(mktemp -d)

say() { printf '%s  %s\n' "$(date +%H:%M:%S)" "$*"; }
die() {
	say "FAILED: $*" >&2
	exit 1
}

for tool in kubectl curl openstack; do
	command -v "$tool" >/dev/null || die "$tool is not installed"
done

if [ -n "${OS_AUTH_URL:-}" ]; then
	OS_TOKEN=$(openstack token issue -f value -c id)
	for v in $(env | sed -n 's/^\(OS_[A-Z_]*\)=.*/\1/p'); do
		[ "$v" = OS_TOKEN ] || [ "$v" = OS_CACERT ] || unset "$v"
	done
	OS_AUTH_TYPE=admin_token
	export OS_TOKEN
else
	OS_AUTH_TYPE=none
fi
OS_ENDPOINT=$url/v1
export OS_AUTH_TYPE OS_ENDPOINT

coe() { openstack coe "$@"; }
status() { coe cluster show "$1" -f value -c status 2>/dev/null || echo GONE; }

# await SECONDS WHAT COMMAND...: until the command succeeds.
await() {
	limit=$1
	what=$2
	shift 2
	began=$(date +%s)
	until "$@"; do
		[ $(($(date +%s) - began)) -lt "$limit" ] || die "$what: not within $limit s"
		sleep 1
	done
	say "$what: after $(($(date +%s) - began)) s"
}
complete() {
	case $(status "$1") in
	*_COMPLETE) return 0 ;;
	*_FAILED | GONE) die "$1 is $(status "$1"): $(coe cluster show "$1" -f value -c status_reason 2>/dev/null)" ;;
	esac
	return 1
}
gone() {
	case $(status "$1") in
	GONE) return 0 ;;
	*_FAILED) die "$1 is $(status "$1")" ;;
	esac
	return 1
}
has_status() { [ "$(status "$1")" = "$2" ]; }
equal() { [ "$2" = "$3" ] || die "$1 is '$2', not '$3'"; }

template() {
	coe cluster template create "$1" --coe kubernetes --image "$image" --external-network "$network" \
		--flavor "$flavor" --master-flavor "$flavor" --labels "kube_tag=$2" >/dev/null
}

cleanup() {
	result=$?
	trap - EXIT
	for c in $(coe cluster list -f value -c name 2>/dev/null | grep "^$run" || true); do
		coe cluster delete "$c" >/dev/null 2>&1 || true
	done
	rm -rf "$dir"
	exit $result
}
trap cleanup EXIT
trap 'exit 130' INT TERM

scenarios() {
	c=$run-walk
	say "1. templates and a cluster"
	template "$run-small" "$tag"
	template "$run-next" "$next_tag"
	coe cluster create "$c" --cluster-template "$run-small" --node-count 2 >/dev/null
	has_status "$c" CREATE_IN_PROGRESS || complete "$c" || die "a cluster that was accepted is not there"
	await "$patience" "$c is made" complete "$c"
	coe cluster list -f value -c name | grep -qx "$c" || die "$c is not listed"

	say "2. resize"
	coe cluster resize "$c" 3 >/dev/null
	await "$patience" "$c is resized" complete "$c"
	equal "node_count of $c" "$(coe cluster show "$c" -f value -c node_count)" 3

	say "3. node groups"
	coe nodegroup create "$c" extra --node-count 1 --min-nodes 1 --max-nodes 3 >/dev/null
	await "$patience" "extra is made" complete "$c"
	coe nodegroup update "$c" extra --max-nodes 5 >/dev/null
	await "$patience" "extra is changed" complete "$c"
	equal "max_node_count of extra" "$(coe nodegroup show "$c" extra -f value -c max_node_count)" 5
	coe nodegroup delete "$c" extra >/dev/null
	await "$patience" "extra is deleted" no_nodegroup "$c" extra

	say "4. upgrade"
	coe cluster upgrade "$c" "$run-next" >/dev/null
	await "$patience" "$c is upgraded" complete "$c"
	equal "coe_version of $c" "$(coe cluster show "$c" -f value -c coe_version)" "$next_tag"

	say "5. credentials and certificates"
	coe cluster config "$c" --dir "$dir" --force --output-certs >/dev/null
	kubectl --kubeconfig "$dir/config" config view --minify >/dev/null || die "kubectl does not read the kubeconfig"
	coe ca show "$c" | grep -q 'BEGIN CERTIFICATE' || die "there is no authority"
	coe ca rotate "$c" >/dev/null
	await "$patience" "the authority of $c is replaced" complete "$c"
	coe stats list "$(coe cluster show "$c" -f value -c project_id)" >/dev/null
	coe service list -f value -c state | grep -q up || die "no function reports itself"

	say "6. delete"
	coe cluster delete "$c" >/dev/null
	await "$patience" "$c is deleted" gone "$c"
	coe cluster template delete "$run-small" >/dev/null
	coe cluster template delete "$run-next" >/dev/null
}
no_nodegroup() { ! coe nodegroup list "$1" -f value -c name | grep -qx "$2"; }

# Functions with a tick every few seconds are always wanted; all others are not.
idle_pods() {
	kubectl -n "$namespace" get pods -l app.kubernetes.io/part-of=carafe --field-selector=status.phase=Running \
		-o 'jsonpath={range .items[*]}{.metadata.labels.serving\.knative\.dev/service}{"\n"}{end}' |
		grep -vE '^(relay|statussync|healthmonitor|conductor)?$' || true
}
at_zero() { [ -z "$(idle_pods)" ]; }
zero() {
	say "no request for a while"
	await 300 "all functions without a tick are at zero" at_zero
	curl --fail --silent --show-error --output /dev/null --max-time 60 \
		--write-out '          back in %{time_total} s for a request, ' "$url/" || die "$url/ does not answer from zero"
	curl --fail --silent --show-error --output /dev/null --max-time 60 \
		--write-out 'then %{time_total} s for the next\n' "$url/" || die "$url/ does not answer"
}

kill_broker() {
	for selector in eventing.knative.dev/brokerRole=ingress eventing.knative.dev/brokerRole=filter \
		messaging.knative.dev/role=dispatcher; do
		kubectl -n knative-eventing delete pods -l "$selector" --grace-period=0 --force --wait=false 2>/dev/null
	done | grep -c deleted || die "no pod of the broker is found in knative-eventing"
}
broker() {
	template "$run-broker" "$tag"
	n=0
	while [ $n -lt "$clusters" ]; do
		n=$((n + 1))
		coe cluster create "$run-b$n" --cluster-template "$run-broker" --node-count 1 >/dev/null
		if [ $n -eq $(((clusters + 1) / 2)) ]; then
			killed=$(kill_broker)
			say "killed $killed pods of the broker after $n of $clusters clusters"
		fi
	done
	for n in $(seq "$clusters"); do
		await "$patience" "$run-b$n is made" complete "$run-b$n"
	done
	for n in $(seq "$clusters"); do
		coe cluster delete "$run-b$n" >/dev/null
	done
	killed=$(kill_broker)
	say "killed $killed pods of the broker while all are deleted"
	for n in $(seq "$clusters"); do
		await "$patience" "$run-b$n is deleted" gone "$run-b$n"
	done
	coe cluster template delete "$run-broker" >/dev/null
}

curl --fail --silent --show-error --output /dev/null --max-time 90 "$url/" || die "$url/ does not answer"
for stage; do
	case $stage in
	scenarios | zero | broker)
		say "== $stage"
		$stage
		;;
	*) die "there is no stage $stage" ;;
	esac
done
say "passed: $*"
