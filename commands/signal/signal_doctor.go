package signal

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator/person"
)

// DoctorParams selects the checks.
type DoctorParams struct {
	Try bool `json:"try,omitempty" desc:"push a test notification to every device"`
}

// DoctorResult holds what was found about the connection to the phones.
type DoctorResult struct{ commands.Examined }

var doctorCommand = commands.Define(vocabulary, "signal doctor", doctor).With(commands.Traits{LooksOnly: true})

// doctor runs the checks, and continues after one that fails.
func doctor(ctx context.Context, env commands.Env, p DoctorParams) (DoctorResult, error) {
	return DoctorResult{commands.NewExamined(person.Doctor(ctx, env.Ledger, p.Try))}, nil
}
