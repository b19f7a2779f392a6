package clustertemplates

import (
	"context"
	"net/http"
	"slices"

	"carafe/shared/api"
	"carafe/shared/identity"
	"carafe/shared/magnum"
)

// update serves PATCH /v1/clustertemplates/{ident} (spec/api.md §4.1.4).
func (s *server) update(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	patch, err := api.DecodePatch(r, api.ClusterTemplatePatch)
	if err != nil {
		return err
	}
	old, caller, err := s.find(r, "clustertemplate:update_all_projects")
	if err != nil {
		return err
	}
	if err := s.policy.Enforce(caller, "clustertemplate:update", target(old)); err != nil {
		return err
	}
	if err := api.CheckIfMatch(r, old.Version); err != nil {
		return err
	}
	patched, err := patch.Apply(document(old))
	if err != nil {
		return err
	}
	t := old
	set(&t, patched.Values)
	t.Name = orEmpty(patched.String("name"))
	if err := s.recheck(ctx, caller, old, &t, patched.Changed); err != nil {
		return err
	}
	if len(patched.Changed) > 0 { // nothing changed: nothing to refuse either (B42)
		if t, err = s.templates.Update(ctx, t, protected(patched.Changed), s.now()); err != nil {
			return err
		}
	}
	api.SetETag(w, t.Version)
	t.UpdatedAt = old.UpdatedAt // Magnum answers with the object as it was before the save
	if patched.Map("labels") == nil {
		t.Labels = nil // null, where {} is stored
	}
	return api.WriteJSON(w, http.StatusOK, templateOf(ctx, t))
}

// visible are the attributes that a template in use may change (B42).
var visible = []string{"name", "tags", "public", "hidden"}

func protected(changed []string) bool {
	return slices.ContainsFunc(changed, func(name string) bool { return !slices.Contains(visible, name) })
}

// recheck is what a new template goes through, over the patched one (B38). The
// distro is the image's; only those who may publish can set it by hand, to mend
// a template whose image says the wrong one.
func (s *server) recheck(ctx context.Context, caller identity.Caller, old magnum.ClusterTemplate, t *magnum.ClusterTemplate, changed []string) error {
	byHand := slices.Contains(changed, "cluster_distro")
	wished := t.ClusterDistro
	if slices.Contains(changed, "image_id") && !byHand {
		t.ClusterDistro = nil
	}
	if protected(changed) {
		if err := s.complete(ctx, caller, t); err != nil {
			return err
		}
	}
	if t.Public != old.Public || t.Hidden != old.Hidden || byHand {
		if err := s.mayPublish(caller); err != nil {
			return err
		}
	}
	switch {
	case byHand:
		t.ClusterDistro = wished
	case !slices.Contains(changed, "image_id"):
		t.ClusterDistro = old.ClusterDistro
	}
	return nil
}
