package capi

import (
	"testing"

	"carafe/shared/fault"
)

func TestMessagesAreMadeReadable(t *testing.T) {
	const nova = "Expected HTTP response code [201 202] when accessing [POST https://nova.example.org/v2.1/servers], but got "
	for _, c := range []struct {
		name, message, want string
		code                fault.Reason
		permanent           bool
	}{
		{"quota", nova + `403 instead: {"forbidden": {"code": 403, "message": "Quota exceeded for cores: Requested 4, but already used 18 of 20 cores"}}`,
			"Quota exceeded for cores: Requested 4, but already used 18 of 20 cores", fault.ReasonQuota, false},
		{"flavor", nova + `400 instead: {"badRequest": {"code": 400, "message": "Invalid flavorRef provided."}}`, "Invalid flavorRef provided", fault.ReasonConfiguration, true},
		{"image", nova + `404 instead: {"itemNotFound": {"code": 404, "message": "Image 5b6d could not be found."}}`, "Image 5b6d could not be found", fault.ReasonConfiguration, true},
		{"conflict", nova + `409 instead: {"conflictingRequest": {"code": 409, "message": "Multiple possible networks found"}}`, "Multiple possible networks found", fault.ReasonDependency, false},
		{"octavia", `failed to create load balancer: Expected HTTP response code [201] when accessing [POST https://o/v2], but got 400 instead: {"faultcode": "Client", "faultstring": "Provider 'f5' is not enabled.", "debuginfo": null}`,
			"Provider 'f5' is not enabled", fault.ReasonConfiguration, true},
		{"token", `Expected HTTP response code [200] when accessing [GET https://k/v3], but got 401 instead: {"error":{"code":401,"message":"The request you have made requires authentication.","title":"Unauthorized"}}`,
			"The request you have made requires authentication", fault.ReasonCredential, false},
		{"no JSON", nova + "503 instead: <html>busy</html>", "<html>busy</html>", fault.ReasonDependency, false},
		{"no body", nova + "502 instead: ", "HTTP 502", fault.ReasonDependency, false},
		{"plain", "No valid host was found. There are not enough hosts available. (Request-ID: req-3f1c0a52-9d5f-44c8-a0f0-5a44f13a4e2f) see https://nova/x. Please check controller logs for errors.",
			"No valid host was found. There are not enough hosts available. see", fault.ReasonDependency, false},
		{"credential", "Could not find Application Credential: 818a68654b65417396f29f9c1fa9cd24.", "Could not find Application Credential: 818a68654b65417396f29f9c1fa9cd24", fault.ReasonCredential, false},
		{"bullets", "* WorkersAvailable:\n  * MachineDeployment a-b: 0 available replicas, at least 1 required (spec.strategy.rollout.maxUnavailable is 0, spec.replicas is 1)", "0 available replicas, at least 1 required", fault.ReasonDependency, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := judge("InstanceCreateFailed", c.message)
			if got.text != c.want || got.code != c.code || got.permanent != c.permanent {
				t.Errorf("%q (%s, permanent %v), want %q (%s, permanent %v)", got.text, got.code, got.permanent, c.want, c.code, c.permanent)
			}
		})
	}
}
