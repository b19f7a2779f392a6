// Package triggers holds the routing of all events, as Knative manifests: the
// Broker, one Trigger for each (function, event type) and one PingSource for each
// tick. On Knative they are applied; in one process the embedded broker and clock
// read them from here. The routing exists nowhere else.
package triggers

import "embed"

// FS holds the manifests.
//
//go:embed *.yaml
var FS embed.FS
