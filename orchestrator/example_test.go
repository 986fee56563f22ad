package orchestrator_test

import (
	"context"
	"errors"
	"fmt"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/example"
)

// The errors of the engine have codes, even if they are wrapped. Programs compare codes and show the text to
// people.
func ExampleCodeOf() {
	ctx := context.Background()
	e, done := example.Open("architect")
	defer done()

	_, _, err := agents.Add(ctx, e.Ledger, agents.Update{Name: "all"})
	fmt.Println(orchestrator.CodeOf(fmt.Errorf("the team cannot be set up: %w", err)))

	_, err = messages.Acknowledge(ctx, e.Ledger, "no-such-message", "architect")
	fmt.Println(orchestrator.CodeOf(err))

	fmt.Println(orchestrator.CodeOf(errors.New("somebody else's")))
	// Output:
	// invalid_params
	// not_found
	// internal
}
