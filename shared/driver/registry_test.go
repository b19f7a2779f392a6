package driver

import (
	"context"
	"strings"
	"testing"
)

// named builds virtual machines with Ubuntu, and no more than that.
type named struct {
	Driver
	description Description
}

func (n named) Describe() Description { return n.description }

func (named) Check(context.Context, *Ref, Cluster) error { return nil }

var ubuntu = ClusterType{ServerType: "vm", OS: "ubuntu", COE: "kubernetes"}

func driverFor(name string, beta bool, types ...ClusterType) Driver {
	return named{description: Description{Name: name, Beta: beta, ClusterTypes: types}}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	flatcar := ClusterType{ServerType: "vm", OS: "flatcar", COE: "kubernetes"}
	drivers := []Driver{driverFor("b", false, ubuntu), driverFor("a", false, ubuntu), driverFor("beta", true, ubuntu), driverFor("other", false, flatcar)}
	for _, tc := range []struct {
		name      string
		selection Selection
		asked     string
		want      string // the driver
		refusal   string
	}{
		{"PB-71 TheTemplatesDriverIsTheOneThatChecks", Selection{}, "b", "b", ""},
		{"PB-72 ADisabledOneIsNotHadByName", Selection{Disabled: []string{"b"}}, "b", "", "Cluster driver (b) not supported."},
		{"PB-72 NorABetaOne", Selection{}, "beta", "", "is a beta driver and is not enabled"},
		{"PB-72 UnlessItIsEnabled", Selection{EnabledBeta: []string{"beta"}}, "beta", "beta", ""},
		{"PB-72 NorOneForAnotherType", Selection{}, "other", "", "is not supported by any loaded cluster driver"},
		{"PB-73 OfSeveralTheFirstByName", Selection{}, "", "a", ""},
		{"PB-73 OrTheDefault", Selection{Default: "b"}, "", "b", ""},
		{"PB-73 IfItBuildsTheType", Selection{Default: "other"}, "", "a", ""},
	} {
		for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}} { // loading is in no order
			var loaded []Driver
			for _, i := range order {
				loaded = append(loaded, drivers[i])
			}
			d, err := NewRegistry(tc.selection, loaded...).Select(tc.asked, ubuntu)
			switch {
			case tc.refusal != "":
				if err == nil || !strings.Contains(err.Error(), tc.refusal) {
					t.Errorf("%s: %v", tc.name, err)
				}
			case err != nil || d.Describe().Name != tc.want:
				t.Errorf("%s: %v, %v", tc.name, d, err)
			}
		}
	}
}
