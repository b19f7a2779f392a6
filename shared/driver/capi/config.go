package capi

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"
)

// Config is the environment of the driver.
type Config struct {
	// Kubeconfig is the file that leads to the management cluster, read again
	// when it changes; empty means in-cluster.
	Kubeconfig string `envconfig:"CARAFE_CAPI_KUBECONFIG"`
	// NamespacePrefix begins the name of each project's namespace.
	NamespacePrefix string `envconfig:"CARAFE_CAPI_NAMESPACE_PREFIX" default:"magnum"`
	// ManagementCIDRs may always reach a cluster's API load balancer: the
	// management cluster must.
	ManagementCIDRs []string `envconfig:"CARAFE_CAPI_MANAGEMENT_CIDRS"`
	// QPS and Burst bound the calls to the management cluster in a second.
	QPS   float32 `envconfig:"CARAFE_CAPI_QPS" default:"50"`
	Burst int     `envconfig:"CARAFE_CAPI_BURST" default:"100"`
	// PageSize is the number of objects in one page of a LIST.
	PageSize int64 `envconfig:"CARAFE_CAPI_PAGE_SIZE" default:"500"`
	// CallTimeout bounds one call.
	CallTimeout time.Duration `envconfig:"CARAFE_CAPI_CALL_TIMEOUT" default:"15s"`
	// CreateParallel clusters at most are between their first object and a
	// running control plane: more at once can stall Cluster API's controllers.
	CreateParallel int `envconfig:"CARAFE_CAPI_CREATE_PARALLEL" default:"10"`
	// Addons is the folder of add-on manifests, <add-on>/<minor>/*.yaml;
	// empty: clusters come without add-ons.
	Addons string `envconfig:"CARAFE_CAPI_ADDONS"`
	// AutoscalerImage is the cluster-autoscaler's image, with {minor} for the
	// cluster's minor version, such as 1.35; empty: the operator runs their own.
	AutoscalerImage string `envconfig:"CARAFE_CAPI_AUTOSCALER_IMAGE"`
	// DefaultLabels stand behind a template's labels.
	DefaultLabels map[string]string `envconfig:"CARAFE_CAPI_DEFAULT_LABELS"`
	// AuthURL is Keystone as the nodes and the management cluster reach it;
	// empty: no credential is asked for and nothing is asked of OpenStack.
	AuthURL string `envconfig:"CARAFE_CAPI_AUTH_URL"`
	// Region and Interface pick the endpoints in the catalog.
	Region    string `envconfig:"CARAFE_CAPI_REGION"`
	Interface string `envconfig:"CARAFE_CAPI_INTERFACE" default:"public"`
	// CACert is a file with the authorities of OpenStack's endpoints; empty:
	// those of the system.
	CACert string `envconfig:"CARAFE_CAPI_CACERT"`
	// VolumeTypes get a StorageClass each; the first is the default one.
	VolumeTypes []string `envconfig:"CARAFE_CAPI_VOLUME_TYPES"`
	// DeleteVolumes is never, or label: volumes of a deleted cluster go if its
	// label delete_volumes says so.
	DeleteVolumes string `envconfig:"CARAFE_CAPI_DELETE_VOLUMES" default:"never"`
	// FaultAfter is how long a permanent fault must stand before it ends an
	// operation.
	FaultAfter time.Duration `envconfig:"CARAFE_CAPI_FAULT_AFTER" default:"2m"`
	// StuckAfter is how long nothing may move before status_reason says so.
	StuckAfter time.Duration `envconfig:"CARAFE_CAPI_STUCK_AFTER" default:"10m"`
}

// Validate reports all that is wrong at once.
func (c Config) Validate() error {
	var errs []error
	if len(c.NamespacePrefix) == 0 || len(c.NamespacePrefix) > 17 || slug(c.NamespacePrefix, 17) != c.NamespacePrefix {
		errs = append(errs, fmt.Errorf("CARAFE_CAPI_NAMESPACE_PREFIX %q: 1 to 17 lower-case letters, digits and dashes, a letter first", c.NamespacePrefix))
	}
	for _, cidr := range c.ManagementCIDRs {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			errs = append(errs, fmt.Errorf("CARAFE_CAPI_MANAGEMENT_CIDRS: %w", err))
		}
	}
	if c.DeleteVolumes != "never" && c.DeleteVolumes != "label" {
		errs = append(errs, fmt.Errorf("CARAFE_CAPI_DELETE_VOLUMES %q: never or label", c.DeleteVolumes))
	}
	if c.CreateParallel < 1 {
		errs = append(errs, fmt.Errorf("CARAFE_CAPI_CREATE_PARALLEL %d: at least 1", c.CreateParallel))
	}
	if c.CallTimeout <= 0 {
		errs = append(errs, fmt.Errorf("CARAFE_CAPI_CALL_TIMEOUT %s: more than 0", c.CallTimeout))
	}
	if c.PageSize < 1 {
		errs = append(errs, fmt.Errorf("CARAFE_CAPI_PAGE_SIZE %d: at least 1", c.PageSize))
	}
	for name, value := range c.DefaultLabels {
		s, ok := byName[name]
		if !ok || s.Field {
			errs = append(errs, fmt.Errorf("CARAFE_CAPI_DEFAULT_LABELS: unknown label %s", name))
			continue
		}
		if err := s.Check(value); err != nil {
			errs = append(errs, fmt.Errorf("CARAFE_CAPI_DEFAULT_LABELS: %w", err))
		}
	}
	for name, file := range map[string]string{"CARAFE_CAPI_KUBECONFIG": c.Kubeconfig, "CARAFE_CAPI_CACERT": c.CACert, "CARAFE_CAPI_ADDONS": c.Addons} {
		if file == "" {
			continue
		}
		if _, err := os.Stat(file); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
