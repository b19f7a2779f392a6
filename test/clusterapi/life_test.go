//go:build clusterapi

package clusterapi

import (
	"testing"
)

// One cluster's whole life, in the order in which a user would live it.
func TestLife(t *testing.T) {
	s := newSubject(t, newDriver(t))
	o := s.create()
	t.Logf("%+v", o)
	s.delete()
}
