package api

import "carafe/shared/magnum"

// CACertTypes are the certificate authorities of a cluster as a client may
// call them (B75).
var CACertTypes = []string{"kubernetes", "kubelet", "etcd", "front-proxy", "front_proxy"}

// CertificateCreate is the body of POST /v1/certificates.
var CertificateCreate = newBody("certificate", "Certificate", []Field{
	{Name: "project_id", Type: Text, ReadOnly: true, RequestOnly: true},
	{Name: "user_id", Type: Text, ReadOnly: true, RequestOnly: true},
	{Name: "cluster_uuid", Type: Text, Mandatory: true, Null: NullMandatory, Doc: "UUID or name; always the UUID in answers."}, // B74
	{Name: "links", Type: LinkList, ReadOnly: true},
	{Name: "csr", Type: String, Min: 1, Mandatory: true, Null: NullMandatory, Doc: "PEM certificate signing request."}, // B74
	{Name: "pem", Type: String, Min: 1, Ignored: true, Doc: "PEM certificate."},
	{Name: "ca_cert_type", Type: Text, Doc: "The authority that signs; kubernetes if absent."},
	{Name: "created_at", Type: Timestamp, ReadOnly: true, RequestOnly: true},
	{Name: "updated_at", Type: Timestamp, ReadOnly: true, RequestOnly: true},
})

func quotaFields(limitMandatory bool) []Field {
	limit := Field{Name: "hard_limit", Type: Int, Null: NullMandatory, Default: 1}
	if limitMandatory {
		limit.Mandatory, limit.Default = true, nil // B67
	}
	return []Field{
		{Name: "id", Type: Int, Min: 1, Ignored: true}, // B67
		limit,
		{Name: "project_id", Type: String, Min: 1, Max: 255},
		{Name: "resource", Type: Enum, Enum: []string{magnum.ResourceCluster}, Null: NullMandatory, Default: magnum.ResourceCluster},
		{Name: "created_at", Type: Timestamp, ReadOnly: true},
		{Name: "updated_at", Type: Timestamp, ReadOnly: true},
	}
}

// QuotaCreate is the body of POST /v1/quotas.
var QuotaCreate = newBody("quota", "Quota", quotaFields(false))

// QuotaUpdate is the body of PATCH /v1/quotas/…: an object, not a patch list.
var QuotaUpdate = newBody("quotapatch", "QuotaPatch", quotaFields(true))

var federationStatuses = []string{
	"CREATE_IN_PROGRESS", "CREATE_FAILED", "CREATE_COMPLETE",
	"UPDATE_IN_PROGRESS", "UPDATE_FAILED", "UPDATE_COMPLETE",
	"DELETE_IN_PROGRESS", "DELETE_FAILED", "DELETE_COMPLETE",
}

var federationFields = []Field{
	{Name: "uuid", Type: UUID, Ignored: true, Short: true},
	{Name: "name", Type: String, Min: 1, Max: 242, Pattern: namePattern, Null: NullDefault, Short: true,
		Doc: "Need not be unique; invented if absent."},
	{Name: "hostcluster_id", Type: Text, Short: true, Doc: "UUID or name of a cluster."},
	{Name: "member_ids", Type: StringList, Short: true, Doc: "UUIDs of clusters."},
	{Name: "status", Type: Enum, Enum: federationStatuses, Ignored: true, Short: true},
	{Name: "status_reason", Type: Text, Ignored: true},
	{Name: "properties", Type: StringMap, Short: true, Doc: "Must have dns-zone."},
	{Name: "links", Type: LinkList, ReadOnly: true, Short: true},
	{Name: "project_id", Type: Text, ReadOnly: true, RequestOnly: true},
	{Name: "created_at", Type: Timestamp, ReadOnly: true},
	{Name: "updated_at", Type: Timestamp, ReadOnly: true},
}

// FederationCreate is the body of POST /v1/federations.
var FederationCreate = newBody("federation", "Federation", federationFields)

// FederationPatch is the body of PATCH /v1/federations/{ident}. A value may
// stand in the remove of a member.
var FederationPatch = newPatch(federationFields, patchRules{})

// QuotaSortKeys and FederationSortKeys are the columns that these lists may be
// sorted by.
var (
	QuotaSortKeys      = sortKeys(QuotaCreate.Fields)
	FederationSortKeys = sortKeys(federationFields, "links")
)
