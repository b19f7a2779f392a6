package function

import (
	"context"
	"slices"

	"carafe/shared/telemetry"
)

// reporter is the function whose process reports the database's state: its tick keeps it
// awake, and one is enough.
const reporter = "relay"

// reportState has the gauges read from the database, in the process that hosts the
// reporter.
func reportState(functions []Function, p *Platform, t *telemetry.Telemetry) error {
	if !slices.ContainsFunc(functions, func(f Function) bool { return f.Name == reporter }) {
		return nil
	}
	return t.ReadState(func(ctx context.Context) (telemetry.State, error) { return p.DB.State(ctx, p.Now()) })
}
