package schedules_test

import (
	"context"
	"fmt"
	"log"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/example"
	"mailroom/orchestrator/schedules"
)

// `mailroom serve` runs the schedules of a database. A new database has the schedules that deliver messages and clean
// up.
func ExampleAdd() {
	ctx := context.Background()
	e, done := example.Open()
	defer done()

	if _, err := schedules.Add(ctx, e.Ledger, orchestrator.Schedule{
		Name: "nightly_backup", Spec: "0 2 * * *", Command: "backup",
		Params: []byte(`{"file":"/backups/mailroom.db","overwrite":true}`), Enabled: true,
	}); err != nil {
		log.Fatal(err)
	}
	list, err := schedules.List(ctx, e.Ledger)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range list {
		fmt.Println(s.Name, s.Spec)
	}
	// Output:
	// checkpoint @every 5m
	// clear_old 0 3 * * *
	// clear_traces 30 3 * * *
	// deliver_all @every 1s
	// deliver_on_doorbell @doorbell
	// nightly_backup 0 2 * * *
}
