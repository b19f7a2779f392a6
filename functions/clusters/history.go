package clusters

import (
	"encoding/json"
	"net/http"

	"carafe/shared/api"
	"carafe/shared/magnum"
)

// operation is one line of a cluster's history: what was asked, by whom, when,
// how it went and why it failed. Carafe's extension.
type operation struct {
	ID           string    `json:"id"`
	Kind         string    `json:"kind"`
	NodeGroupID  *string   `json:"nodegroup_id"`
	State        string    `json:"state"`
	Arguments    any       `json:"arguments"`
	Error        *string   `json:"error"`
	ErrorCode    *string   `json:"error_code"`
	Attempt      int       `json:"attempt"`
	Steps        []string  `json:"steps"`
	SupersededBy *string   `json:"superseded_by"`
	UserID       string    `json:"user_id"`
	ProjectID    string    `json:"project_id"`
	RequestID    string    `json:"request_id"`
	CreatedAt    api.Time  `json:"created_at"`
	StartedAt    *api.Time `json:"started_at"`
	FinishedAt   *api.Time `json:"finished_at"`
	DeadlineAt   *api.Time `json:"deadline_at"`
}

// operations serves GET /v1/clusters/{ident}/operations.
func (s *server) operations(w http.ResponseWriter, r *http.Request) error {
	c, _, err := s.clusters.Find(r.Context(), api.Path(r, "cluster_ident"), show)
	if err != nil {
		return err
	}
	page, err := api.ParsePage(r, nil)
	if err != nil {
		return err
	}
	var before int64
	if page.Marker != "" {
		marker, err := s.db.Operations.Get(r.Context(), page.Marker)
		if err != nil {
			return err
		}
		before = marker.Seq
	}
	rows, err := s.db.Operations.History(r.Context(), c.UUID, before, int32(page.Limit+1))
	if err != nil {
		return err
	}
	return api.WritePage(w, r, page, api.List[magnum.Operation, operation]{Name: "operations", Path: "clusters/" + c.UUID + "/operations",
		Rows: rows, ID: func(o *magnum.Operation) string { return o.ID },
		Show: func(o *magnum.Operation) operation { return operationOf(*o) }})
}

func operationOf(o magnum.Operation) operation {
	return operation{ID: o.ID, Kind: string(o.Kind), NodeGroupID: o.NodeGroupID, State: string(o.State),
		Arguments: o.Arguments, Error: o.Error, ErrorCode: o.ErrorCode, Attempt: o.Attempt, Steps: o.Steps,
		SupersededBy: o.SupersededBy, UserID: o.UserID, ProjectID: o.ProjectID, RequestID: o.RequestID,
		CreatedAt: api.Time(o.CreatedAt), StartedAt: api.TimeOf(o.StartedAt), FinishedAt: api.TimeOf(o.FinishedAt),
		DeadlineAt: api.TimeOf(o.DeadlineAt)}
}

// notified is one notification of a cluster, as its subscribers got it.
type notified struct {
	ID          string          `json:"id"`
	Type        string          `json:"type"`
	Outcome     string          `json:"outcome"`
	Priority    string          `json:"priority"`
	OperationID *string         `json:"operation_id"`
	RequestID   string          `json:"request_id"`
	Time        api.Time        `json:"time"`
	PublishedAt *api.Time       `json:"published_at"`
	Data        json.RawMessage `json:"data"`
}

// events serves GET /v1/clusters/{ident}/events.
func (s *server) events(w http.ResponseWriter, r *http.Request) error {
	c, _, err := s.clusters.Find(r.Context(), api.Path(r, "cluster_ident"), show)
	if err != nil {
		return err
	}
	page, err := api.ParsePage(r, nil)
	if err != nil {
		return err
	}
	var before int64
	if page.Marker != "" {
		if before, err = s.db.Events.Seq(r.Context(), c.UUID, page.Marker); err != nil {
			return err
		}
	}
	rows, err := s.db.Events.OfCluster(r.Context(), c.UUID, before, int32(page.Limit+1))
	if err != nil {
		return err
	}
	return api.WritePage(w, r, page, api.List[magnum.Event, notified]{Name: "events", Path: "clusters/" + c.UUID + "/events",
		Rows: rows, ID: func(e *magnum.Event) string { return e.ID }, Show: notifiedOf})
}

func notifiedOf(e *magnum.Event) notified {
	n := notified{ID: e.ID, Type: e.Type, Outcome: string(e.Outcome), Priority: e.Priority, RequestID: e.RequestID,
		Time: api.Time(e.CreatedAt), PublishedAt: api.TimeOf(e.PublishedAt), Data: e.Data}
	if e.OperationID != "" {
		n.OperationID = &e.OperationID
	}
	return n
}
