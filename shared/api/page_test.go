package api

import (
	"net/http"
	"strings"
	"testing"
)

func TestPages(t *testing.T) {
	const marker = "5d12f6fd-a196-4bf0-ae4c-1f639a523a53"
	app := "http://h"
	page := func(keys []string, path string) Handler {
		return func(w http.ResponseWriter, r *http.Request) error {
			p, err := ParsePage(r, keys)
			if err != nil {
				return err
			}
			if p.Marker == "27e3153e-d5bf-4b7e-b517-fb518e17f34d" {
				return Invalid("marker", nil, "not found")
			}
			return WritePage(w, r, p, List[string, string]{Name: "clusters", Path: path, Rows: make([]string, p.Limit+1),
				ID: func(*string) string { return "last" }, Show: func(*string) string { return "" }})
		}
	}
	rt := newRouter(t, Config{MaxLimit: 50}, echo(t, map[string]Handler{
		"cluster_list": page(ClusterSortKeys, "clusters"), "quota_list": page(QuotaSortKeys, "quotas"),
		"nodegroup_list": page(NodeGroupSortKeys, "clusters/u/nodegroups"), "cluster_events": page(nil, "clusters/u/events"),
	}))
	for target, want := range map[string]string{
		"/v1/clusters": app + "/v1/clusters?sort_key=id&sort_dir=asc&limit=50&marker=last",
		"/v1/clusters?limit=3&sort_key=name&sort_dir=desc":       app + "/v1/clusters?sort_key=name&sort_dir=desc&limit=3&marker=last",
		"/v1/clusters?limit=99999999999999999999":                app + "/v1/clusters?sort_key=id&sort_dir=asc&limit=50&marker=last",
		"/v1/clusters?sort_key=":                                 app + "/v1/clusters?sort_key=id&sort_dir=asc&limit=50&marker=last",
		"/v1/clusters?marker=" + strings.ToUpper(marker):         app + "/v1/clusters?sort_key=id&sort_dir=asc&limit=50&marker=last",
		"/v1/clusters?name=a%20b&status=CREATE_FAILED":           "&status=CREATE_FAILED&name=a+b",
		"/v1/clusters?changed-since=2026-12-01T00:00:00%2B00:00": "&changed-since=2026-12-01T00%3A00%3A00%2B00%3A00",
		"/v1/clusters?changed-since=2026-12-01T00:00:00+00:00":   "&changed-since=",
		"/v1/clusters/c/nodegroups?role=worker":                  app + "/v1/clusters/u/nodegroups?sort_key=id&sort_dir=asc&limit=50&marker=last&role=worker", // B21
		"/v1/quotas?all_tenants=True&marker=7":                   app + "/v1/quotas?sort_key=id&sort_dir=asc&limit=50&marker=last&all_tenants=True",
		"/v1/clusters/c/events?limit=2":                          app + "/v1/clusters/u/events?limit=2&marker=last",

		"/v1/clusters?limit=0":                                                "Limit must be positive",
		"/v1/clusters?limit=-99999999999999999999":                            "Limit must be positive",
		"/v1/clusters?limit=0&sort_dir=up&sort_key=x":                         "Limit must be positive",
		"/v1/clusters?sort_dir=up&sort_key=x":                                 "Invalid sort direction: up. Acceptable values are 'asc' or 'desc'",
		"/v1/clusters?sort_dir=":                                              "Invalid sort direction: . Acceptable values are 'asc' or 'desc'",
		"/v1/clusters?sort_key=node_count":                                    `The sort_key value "node_count" is an invalid field for sorting`,
		"/v1/clusters?sort_key=x&marker=27e3153e-d5bf-4b7e-b517-fb518e17f34d": inv + "marker. Value: 'None'. not found",
		"/v1/clusters?sort_key=x&marker=" + marker:                            `The sort_key value "x" is an invalid field for sorting`,
		"/v1/clusters?limit=abc&foo=1":                                        inv + "limit. Value: 'abc'. unable to convert to int. Error: invalid literal for int() with base 10: 'abc'",
		"/v1/clusters?limit=1&limit=2":                                        inv + "limit. Value: '['1', '2']'. unable to convert to int. Error: int() argument must be a string, a bytes-like object or a real number, not 'list'",
		"/v1/clusters?marker=zz":                                              inv + "marker. Value: 'zz'. unable to convert to uuid. Error: Expected a uuid but received zz.",
		"/v1/clusters?foo=1&bar=2&foo=3":                                      `Unknown argument: "bar, foo"`, // B20
		"/v1/clusters?status=X":                                               inv + "status. Value: 'X'. Value should be one of: CREATE_IN_PROGRESS, ",
		"/v1/clusters?changed-since=x":                                        inv + "changed-since. Value: 'x'. Value should be an ISO 8601 time",
		"/v1/clusters?name=":                                                  inv + "name. Value: ''. Value should have a minimum character requirement of 1",
		"/v1/clusters?health_status=ILL":                                      inv + "health_status. Value: 'ILL'. Value should be one of: ",
		"/v1/clusters?cluster_template_id=t1":                                 inv + "cluster_template_id. Value: 't1'. unable to convert to uuid. Error: Expected a uuid but received t1.",
		"/v1/clusters?name=%00":                                               inv + "name. Value: '\\u0000'. " + noNUL,
		"/v1/quotas?marker=zz":                                                inv + "marker. Value: 'zz'. unable to convert to int. Error: invalid literal for int() with base 10: 'zz'",
		"/v1/quotas?all_tenants=zz":                                           inv + "all_tenants. Value: 'zz'. unable to convert to bool. Error: Unrecognized value 'zz', acceptable",
	} {
		w := send(t, rt, "GET", app+target, "", "OpenStack-API-Version", v114)
		if got := strings.ReplaceAll(w.Body.String(), `\"`, `"`); !strings.Contains(got, want) || (w.Code == 200) != strings.ContainsAny(want[:1], "h&") {
			t.Errorf("%s: %d %s", target, w.Code, got)
		}
	}
}
