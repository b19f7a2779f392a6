// Command gen writes the OpenAPI document to the file that it is given.
package main

import (
	"encoding/json"
	"log"
	"os"

	"sigs.k8s.io/yaml"

	"carafe/shared/api/openapi"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: gen FILE")
	}
	asJSON, err := json.Marshal(openapi.Document())
	if err != nil {
		log.Fatal(err)
	}
	asYAML, err := yaml.JSONToYAML(asJSON)
	if err != nil {
		log.Fatal(err)
	}
	header := "# Generated from the tables in shared/api by `go generate ./shared/api/openapi`. DO NOT EDIT.\n"
	if err := os.WriteFile(os.Args[1], append([]byte(header), asYAML...), 0o644); err != nil {
		log.Fatal(err)
	}
}
