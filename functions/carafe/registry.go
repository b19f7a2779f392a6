package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"carafe/functions"
	"carafe/shared/api"
	"carafe/shared/events"
	"carafe/shared/function"
	"carafe/triggers"
)

// all is the registry: every function that there is.
var all = functions.All

// list prints the functions, and what brings them their work.
func list(_ context.Context, args []string, out io.Writer) error {
	if len(args) > 0 {
		return fmt.Errorf("carafe functions takes no arguments")
	}
	routes, err := events.ReadRoutes(triggers.FS)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tKIND\tTAKES")
	for _, f := range all {
		for i, takes := range work(f, routes) {
			name, kind := f.Name, f.Kind.String()
			if i > 0 {
				name, kind = "", ""
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", name, kind, takes)
		}
	}
	return w.Flush()
}

// work is what a function takes, a line each.
func work(f function.Function, routes *events.Routes) []string {
	var lines []string
	for _, r := range api.Routes {
		if r.Function == f.Name {
			lines = append(lines, r.Method+" "+path(r))
		}
	}
	for _, s := range routes.Schedules {
		if s.Function == f.Name {
			lines = append(lines, "tick "+s.Spec)
		}
	}
	for _, t := range routes.Triggers {
		if t.Function == f.Name {
			lines = append(lines, "event "+t.Type())
		}
	}
	if f.Path != "" {
		lines = append(lines, "GET "+f.Path+"/…")
	}
	if lines == nil {
		lines = []string{"events that no other function took"}
	}
	return lines
}

// path is the route's whole path.
func path(r api.Route) string {
	if r.Function == "discovery" && r.Path != "/openapi.json" {
		return r.Path
	}
	return "/v1" + r.Path
}
