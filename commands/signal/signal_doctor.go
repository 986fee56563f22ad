package signal

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator/person"
)

// DoctorParams say what to look at.
type DoctorParams struct {
	Try bool `json:"try,omitempty" desc:"push a test notification to every device"`
}

// DoctorResult is what was found on the way to the phones.
type DoctorResult struct{ commands.Examined }

var doctorCommand = commands.Define(vocabulary, "signal doctor", doctor).With(commands.Traits{LooksOnly: true})

// doctor goes on after a check that fails.
func doctor(ctx context.Context, env commands.Env, p DoctorParams) (DoctorResult, error) {
	return DoctorResult{commands.NewExamined(person.Doctor(ctx, env.Ledger, p.Try))}, nil
}
