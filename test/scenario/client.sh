#!/bin/sh
# Prints the bin directory of a virtual environment that holds the named tool,
# and makes it first if it is not there. It is kept by version outside of the
# checkout, so that a second checkout on the same machine finds it.
#
#   client.sh openstack      python-openstackclient, python-magnumclient, openstacksdk
#   client.sh schemathesis   schemathesis
#
# Needs python3 with venv, and a package index that pip can reach.
set -eu

OPENSTACKCLIENT=10.5.0
MAGNUMCLIENT=5.0.0
SDK=4.22.0
SCHEMATHESIS=4.32.0

case ${1:-openstack} in
openstack)
	name=openstackclient-$OPENSTACKCLIENT-$MAGNUMCLIENT-$SDK
	needs="python-openstackclient==$OPENSTACKCLIENT python-magnumclient==$MAGNUMCLIENT openstacksdk==$SDK"
	;;
schemathesis)
	name=schemathesis-$SCHEMATHESIS
	needs="schemathesis==$SCHEMATHESIS"
	;;
*)
	echo "client.sh: no tool named $1; there are openstack and schemathesis" >&2
	exit 2
	;;
esac

dir=${XDG_CACHE_HOME:-$HOME/.cache}/carafe/$name
if [ ! -e "$dir/ready" ]; then
	python=$(command -v python3) || {
		echo "client.sh: python3 is not installed (apt-get install python3 python3-venv)" >&2
		exit 1
	}
	# Debian has venv in a package of its own; without it ensurepip is missing.
	if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
		if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
			{ apt-get update -q && apt-get install -y -q python3-venv; } >&2
		else
			echo "client.sh: python3 lacks venv (apt-get install python3-venv)" >&2
			exit 1
		fi
	fi
	mkdir -p "$dir"
	# Two at once: the second waits, and finds it ready.
	exec 9>"$dir/lock"
	flock 9
	if [ ! -e "$dir/ready" ]; then
		"$python" -m venv --clear "$dir/venv" >&2
		# shellcheck disable=SC2086 # needs is a list
		"$dir/venv/bin/pip" install --quiet --disable-pip-version-check $needs >&2
		touch "$dir/ready"
	fi
fi
echo "$dir/venv/bin"
