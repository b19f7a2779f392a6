package main

import (
	"fmt"
	"io"
	"strings"

	"carafe/shared/function"
)

// welcome prints what a person who has just started Carafe can do with it.
func welcome(out io.Writer, address string, env *function.Env, db *database) {
	fmt.Fprintf(out, "Carafe is ready on http://%s/v1\n", address)
	fmt.Fprintf(out, "  database  %s\n", db.where())
	if env.AuthStrategy == "keystone" {
		fmt.Fprintf(out, "  identity  Keystone at %s\n\n", env.KeystoneURL)
		return
	}
	fmt.Fprintln(out, "  identity  noauth: everybody is user alice in project demo, or who X-User-Id, X-Project-Id and X-Roles say")
	fmt.Fprintln(out, "  OpenStack none: flavors, images, keypairs and networks are taken as named, every image as Ubuntu")
	fmt.Fprintln(out, "  events    an embedded broker and clock, by the manifests in triggers/")
	fmt.Fprintln(out)
	fmt.Fprintln(out, strings.ReplaceAll(strings.TrimPrefix(walkthrough, "\n"), "ADDRESS", address))
}

// walkthrough is the main job, from a template to the last delete.
const walkthrough = `
Try it in another terminal (pip install python-openstackclient python-magnumclient):

  coe() { openstack --os-auth-type none --os-endpoint http://ADDRESS/v1 coe "$@"; }

  # a template, a cluster, and the wait until it is there
  coe cluster template create small --coe kubernetes --image ubuntu --external-network public --flavor m1.small --master-flavor m1.small --labels kube_tag=v1.34.1
  coe cluster create demo --cluster-template small --node-count 2
  coe cluster list
  until coe cluster show demo -f value -c status | grep COMPLETE; do sleep 1; done

  # its credentials: a kubeconfig, its authority
  coe cluster config demo --dir . --force
  coe ca show demo

  # another size, one more node group
  coe cluster resize demo 3
  until coe cluster show demo -f value -c status | grep COMPLETE; do sleep 1; done
  coe nodegroup create demo gpu --node-count 1 --flavor m1.medium
  until coe nodegroup show demo gpu -f value -c status | grep COMPLETE; do sleep 1; done
  coe nodegroup list demo

  # another version
  coe cluster template create next --coe kubernetes --image ubuntu --external-network public --flavor m1.small --master-flavor m1.small --labels kube_tag=v1.35.0
  coe cluster upgrade demo next
  until coe cluster show demo -f value -c status | grep COMPLETE; do sleep 1; done
  coe cluster show demo -c coe_version -c health_status

  # and its end
  coe cluster delete demo
  while coe cluster show demo >/dev/null 2>&1; do sleep 1; done; coe cluster list
  coe cluster template delete small next

ctrl-C stops everything; clusters are there again at the next start.`
