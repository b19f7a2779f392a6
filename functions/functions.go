// Package functions is the registry: every function that there is. Each is in a folder
// of its own; this file and the hosts of all of them, functions/carafe and the func
// profile at the top, are the only places that know more than one.
package functions

import (
	"carafe/functions/actions"
	"carafe/functions/carotate"
	"carafe/functions/certificates"
	"carafe/functions/clustercreate"
	"carafe/functions/clusterdelete"
	"carafe/functions/clusterresize"
	"carafe/functions/clusters"
	"carafe/functions/clustertemplates"
	"carafe/functions/clusterupdate"
	"carafe/functions/clusterupgrade"
	"carafe/functions/credentialrotate"
	"carafe/functions/credentials"
	"carafe/functions/deadletter"
	"carafe/functions/discovery"
	"carafe/functions/federationcreate"
	"carafe/functions/federationdelete"
	"carafe/functions/federations"
	"carafe/functions/federationupdate"
	"carafe/functions/healthmonitor"
	"carafe/functions/nodegroupcreate"
	"carafe/functions/nodegroupdelete"
	"carafe/functions/nodegroups"
	"carafe/functions/nodegroupupdate"
	"carafe/functions/quotas"
	"carafe/functions/relay"
	"carafe/functions/services"
	"carafe/functions/stacks"
	"carafe/functions/stats"
	"carafe/functions/statussync"
	"carafe/shared/function"
)

// All are the functions, in the order in which people read about them.
var All = []function.Function{
	discovery.Function(),
	clustertemplates.Function(),
	clusters.Function(),
	actions.Function(),
	nodegroups.Function(),
	certificates.Function(),
	credentials.Function(),
	quotas.Function(),
	stats.Function(),
	services.Function(),
	federations.Function(),
	stacks.Function(),

	clustercreate.Function(),
	clusterupdate.Function(),
	clusterresize.Function(),
	clusterupgrade.Function(),
	clusterdelete.Function(),

	nodegroupcreate.Function(),
	nodegroupupdate.Function(),
	nodegroupdelete.Function(),

	carotate.Function(),
	credentialrotate.Function(),

	federationcreate.Function(),
	federationupdate.Function(),
	federationdelete.Function(),

	statussync.Function(),
	healthmonitor.Function(),
	relay.Function(),
	deadletter.Function(),
}
