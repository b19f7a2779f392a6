// Package functions is the registry: every function that there is. Each is in a folder
// of its own; this file and the hosts of all of them, functions/carafe and the func
// profile at the top, are the only places that know more than one.
package functions

import (
	"carafe/functions/clustercreate"
	"carafe/functions/clusterdelete"
	"carafe/functions/clusterresize"
	"carafe/functions/clusterupdate"
	"carafe/functions/clusterupgrade"
	"carafe/functions/deadletter"
	"carafe/functions/nodegroupcreate"
	"carafe/functions/nodegroupdelete"
	"carafe/functions/nodegroupupdate"
	"carafe/functions/relay"
	"carafe/functions/statussync"
	"carafe/shared/function"
)

// All are the functions, in the order in which people read about them.
var All = []function.Function{
	clustercreate.Function(),
	clusterupdate.Function(),
	clusterresize.Function(),
	clusterupgrade.Function(),
	clusterdelete.Function(),
	nodegroupcreate.Function(),
	nodegroupupdate.Function(),
	nodegroupdelete.Function(),

	statussync.Function(),
	relay.Function(),
	deadletter.Function(),
}
