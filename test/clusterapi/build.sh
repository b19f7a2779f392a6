#!/bin/bash
# build.sh [NAME...]: compiles what the bed runs, from Go modules alone, and
# prints the folder that holds it. What is there already is not built again:
# the folder is named by the versions, so a new version is a new folder.
# From nothing it takes 12 to 15 minutes of two cores; JOBS (1) sets how many.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

version() { (cd "$here/build/$1" && GOFLAGS=-mod=readonly go list -m -f '{{.Version}}' "$2"); }
kube=$(version kube k8s.io/kubernetes)
etcd=$(version kube go.etcd.io/etcd/server/v3)
capi=$(version managers sigs.k8s.io/cluster-api)
bin=${XDG_CACHE_HOME:-$HOME/.cache}/carafe/cluster-api-$capi-kube-$kube-etcd-$etcd
mkdir -p "$bin"

# One build at a time: two test runs must not compile the same things.
exec 9>"$bin/.lock"
flock 9

build() { # name module package ldflags
	local name=$1 module=$2 package=$3 flags=$4 start
	start=$(date +%s)
	(cd "$here/build/$module" && GOWORK=off CGO_ENABLED=0 GOFLAGS='-mod=readonly -buildvcs=false' \
		nice -n 10 go build -p "${JOBS:-1}" -trimpath -ldflags "-s -w $flags" -o "$bin/.$name" "$package") >&2
	mv "$bin/.$name" "$bin/$name"
	echo "built $name in $(($(date +%s) - start)) s" >&2
}

v=k8s.io/component-base/version
minor=${kube#v1.} minor=${minor%%.*}
kubeflags="-X $v.gitVersion=$kube -X $v.gitMajor=1 -X $v.gitMinor=$minor -X $v.gitTreeState=clean"
all=(etcd kube-apiserver kube-controller-manager memstack capi-core capi-bootstrap capi-controlplane capi-infrastructure)
for name in "${@:-${all[@]}}"; do
	# The stand-in is the bed's own code and changes with it.
	[ "$name" != memstack ] && [ -x "$bin/$name" ] && continue
	case $name in
	etcd) build "$name" kube go.etcd.io/etcd/server/v3 "" ;;
	kube-apiserver | kube-controller-manager) build "$name" kube "k8s.io/kubernetes/cmd/$name" "$kubeflags" ;;
	memstack) build "$name" managers ./memstack "" ;;
	capi-core) build "$name" managers sigs.k8s.io/cluster-api/core "" ;;
	capi-bootstrap) build "$name" managers sigs.k8s.io/cluster-api/bootstrap/kubeadm "" ;;
	capi-controlplane) build "$name" managers sigs.k8s.io/cluster-api/controlplane/kubeadm "" ;;
	capi-infrastructure) build "$name" managers sigs.k8s.io/cluster-api/test/infrastructure/docker "" ;;
	*) echo "build.sh: unknown name $name" >&2 && exit 1 ;;
	esac
done
echo "$bin"
