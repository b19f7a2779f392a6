package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"carafe/shared/driver/capi"
)

// labels prints all attributes and labels that the driver capi gives an effect.
func labels(_ context.Context, args []string, out io.Writer) error {
	if len(args) > 0 {
		return errors.New("carafe labels takes no arguments")
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tTYPE\tDEFAULT\tCHANGES AT\tEFFECT")
	for _, s := range capi.Labels() {
		name, kind := s.Name, string(s.Type)
		if s.Field {
			name += " (attribute)"
		}
		if len(s.Aliases) > 0 {
			name += ", " + strings.Join(s.Aliases, ", ")
		}
		if len(s.Values) > 0 {
			kind = strings.Join(s.Values, "|")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", name, kind, s.Default, s.Mutable, s.Effect)
	}
	return w.Flush()
}

// addons checks a folder of add-ons before an operator mounts it.
func addons(_ context.Context, args []string, out io.Writer) error {
	if len(args) != 2 || args[0] != "verify" {
		return errors.New("carafe addons takes the word verify and a folder")
	}
	found, err := capi.Verify(args[1])
	if err != nil {
		return err
	}
	for _, line := range found {
		fmt.Fprintln(out, line)
	}
	return nil
}
