package orchestrator

import "encoding/json"

// Doorbell is the schedule spec that stands for "whenever anybody sends, and whenever something is due".
const Doorbell = "@doorbell"

// Schedule is a command that `mailroom serve` runs by itself.
type Schedule struct {
	Name      string          `json:"name"`
	Spec      string          `json:"spec"` // a cron expression in local time, @every 1s, @daily, ..., or Doorbell
	Command   string          `json:"command"`
	Params    json.RawMessage `json:"params"`
	Enabled   bool            `json:"enabled"`
	LastRunAt string          `json:"last_run_at"` // "" for never; runs more often than every minute are not recorded
	CreatedAt string          `json:"created_at"`
	Problem   string          `json:"problem,omitempty"` // why no daemon can run it
}

// PresetSchedules stand in a new database. Source: contract, "The ladder and retention".
var PresetSchedules = []Schedule{
	{Name: "deliver_all", Spec: "@every 1s", Command: "deliver_all", Params: json.RawMessage(`{"wait":false}`)},
	{Name: "deliver_on_doorbell", Spec: Doorbell, Command: "deliver_all", Params: json.RawMessage(`{"wait":false}`)},
	{Name: "clear_old", Spec: "0 3 * * *", Command: "clear_old", Params: json.RawMessage(`{}`)},
	{Name: "clear_traces", Spec: "30 3 * * *", Command: "clear_traces", Params: json.RawMessage(`{}`)},
	{Name: "checkpoint", Spec: "@every 5m", Command: "checkpoint", Params: json.RawMessage(`{}`)},
}

// PresetGroups exist empty in a new database. Source: contract, "Who is known".
var PresetGroups = []string{"builders", "council", "intelligence"}
