// Command kustomize prints what kubectl apply -k of each folder would send, one
// JSON object a line behind the folder's name.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func main() {
	for _, dir := range os.Args[1:] {
		if err := build(dir); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", dir, err)
			os.Exit(1)
		}
	}
}

func build(dir string) error {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return err
	}
	for _, r := range resources.Resources() {
		o, err := r.Map()
		if err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"from": dir, "object": o}); err != nil {
			return err
		}
	}
	return nil
}
