package postgres

import "carafe/shared/postgres/internal/sqlc"

// Secrets are the rows of certificates and credentials; shared/certstore gives
// them their meaning.
type Secrets struct {
	q querier
	s *sqlc.Queries
}
