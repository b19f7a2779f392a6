package clusters

import (
	"context"
	"net/http"

	"carafe/shared/api"
	"carafe/shared/conductor"
	"carafe/shared/lookup"
	"carafe/shared/magnum"
	"carafe/shared/postgres"
)

// delete serves DELETE /v1/clusters/{ident}. It is allowed in every status; for
// a cluster that is being deleted it has nothing to do (PB-30). It ends every
// other operation: nothing else counts any more.
func (s *server) delete(w http.ResponseWriter, r *http.Request) error {
	c, caller, err := s.clusters.Find(r.Context(), api.Path(r, "cluster_ident"),
		lookup.Rules{AllProjects: "cluster:delete_all_projects", Action: "cluster:delete"})
	if err != nil {
		return err
	}
	err = s.conductor.Accept(r.Context(), caller, c.UUID, func(ctx context.Context, tx *postgres.Store, subject *conductor.Subject) (*conductor.Wish, error) {
		if err := api.CheckIfMatch(r, subject.Cluster.Version); err != nil {
			return nil, err
		}
		if subject.Cluster.Status == magnum.DeleteInProgress {
			return nil, nil
		}
		return conductor.WishDelete(ctx, tx, subject, magnum.DeleteArguments{}, s.now())
	})
	if err != nil {
		return err
	}
	if err := api.NoContent(w); err != nil {
		return err
	}
	return s.conductor.Answered(w, r)
}
