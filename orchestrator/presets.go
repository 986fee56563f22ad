package orchestrator

import "encoding/json"

// Doorbell is the spec of a schedule that runs whenever a message is sent and whenever work falls due.
const Doorbell = "@doorbell"

// Schedule is a command that a daemon (`mailroom serve`) runs at set times.
type Schedule struct {
	Name      string          `json:"name"`
	Spec      string          `json:"spec"` // a cron expression in local time, @every 1s, @daily, ..., or Doorbell
	Command   string          `json:"command"`
	Params    json.RawMessage `json:"params"`
	Enabled   bool            `json:"enabled"`
	LastRunAt string          `json:"last_run_at"` // "" for never; runs more often than once a minute are not recorded
	CreatedAt string          `json:"created_at"`
	Problem   string          `json:"problem,omitempty"` // why no daemon can run it
}

// PresetSchedules are the schedules of a new database. Source: contract, "The ladder and retention".
var PresetSchedules = []Schedule{
	{Name: "deliver_all", Spec: "@every 1s", Command: "deliver_all", Params: json.RawMessage(`{"wait":false}`)},
	{Name: "deliver_on_doorbell", Spec: Doorbell, Command: "deliver_all", Params: json.RawMessage(`{"wait":false}`)},
	{Name: "clear_old", Spec: "0 3 * * *", Command: "clear_old", Params: json.RawMessage(`{}`)},
	{Name: "clear_traces", Spec: "30 3 * * *", Command: "clear_traces", Params: json.RawMessage(`{}`)},
	{Name: "checkpoint", Spec: "@every 5m", Command: "checkpoint", Params: json.RawMessage(`{}`)},
}

// PresetGroups are the groups of a new database. They are empty. Source: contract, "Who is known".
var PresetGroups = []string{"builders", "council", "intelligence"}
