package api

import (
	"math/rand/v2"
	"strconv"
)

var greek = [...]string{
	"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta",
	"iota", "kappa", "lambda", "mu", "nu", "xi", "omicron", "pi", "rho",
	"sigma", "tau", "upsilon", "phi", "chi", "psi", "omega",
}

// GenerateName invents a name for an object that came without one
// (spec/api.md §4.0.6): kind is cluster, template or federation. Names need
// not be unique.
func GenerateName(kind string) string {
	return greek[rand.IntN(len(greek))] + "-" + strconv.Itoa(1+rand.IntN(24)) + "-" + kind
}
