package keystone

import (
	"context"
	"net/http"
	"net/url"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"

	"carafe/shared/fault"
	"carafe/shared/identity"
)

// Project is one project of the cloud.
type Project struct{ ID, Name string }

// Project looks a project up by its id with the caller's token, and with the
// service user's if the caller may not read projects (PEER BUG B68). An unknown
// one is NotFound with the text of spec/api.md §6.1.
func (c *Client) Project(ctx context.Context, caller identity.Caller, id string) (Project, error) {
	sc, err := c.ForCaller(ctx, caller, Keystone)
	if err != nil {
		return Project{}, err
	}
	p, err := getProject(ctx, sc, id)
	if Status(err) == http.StatusForbidden {
		if sc, err = c.ForService(ctx, Keystone); err != nil {
			return Project{}, err
		}
		p, err = getProject(ctx, sc, id)
	}
	if Status(err) == http.StatusNotFound {
		return Project{}, fault.New(fault.NotFound, "The project_id %s could not be found.", id)
	}
	return p, Fault(Keystone, err)
}

func getProject(ctx context.Context, sc *gophercloud.ServiceClient, id string) (Project, error) {
	p, err := Whole(projects.Get(ctx, sc, url.PathEscape(id)).Extract())
	if err != nil {
		return Project{}, err
	}
	if p.ID != id { // a path that leads elsewhere, such as ".."
		return Project{}, gophercloud.ErrUnexpectedResponseCode{Actual: http.StatusNotFound, ResponseHeader: http.Header{}}
	}
	return Project{ID: p.ID, Name: p.Name}, nil
}
