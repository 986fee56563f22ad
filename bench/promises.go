package main

// promise describes whether a message survives a power failure immediately after its acknowledgement, and how.
type promise struct {
	durable bool
	how     string
}

// promises holds the promise of every contestant by name.
var promises = map[string]promise{
	"mailroom":               {true, "WAL, `synchronous=NORMAL`, and a separate fdatasync of the WAL before Mailroom answers, which is as durable as FULL. On a server: `synchronous_commit=on`"},
	"mailroom-10000-rows":    {true, "the same as mailroom"},
	"mailroom-file":          {true, "the same as mailroom"},
	"mailroom-1000-waiting":  {true, "the same as mailroom"},
	"mailroom-delivered":     {true, "the same as mailroom"},
	"bare-loop":              {true, "WAL, `synchronous=FULL`"},
	"bare-batches":           {true, "WAL, `synchronous=FULL`, one sync for each batch"},
	"greedy":                 {true, "WAL, `synchronous=FULL`"},
	"one-transaction":        {true, "WAL, `synchronous=FULL`, one sync for all rows"},
	"one-delete":             {true, "WAL, `synchronous=FULL`"},
	"sqlite3":                {true, "WAL, `synchronous=FULL`, the command's default"},
	"plain-full":             {true, "WAL, `synchronous=FULL`"},
	"plain-normal":           {false, "WAL, `synchronous=NORMAL`, synced only at checkpoints"},
	"river":                  {true, "WAL, `synchronous=FULL`"},
	"river-server":           {true, "`synchronous_commit=on`"},
	"pgmq-sql":               {true, "`synchronous_commit=on`"},
	"one-commit":             {true, "`synchronous_commit=on`"},
	"backlite-full":          {true, "WAL, `synchronous=FULL`"},
	"backlite":               {false, "WAL, `synchronous=NORMAL`, as its manual sets it up"},
	"jetstream-always":       {true, "`SyncAlways`"},
	"jetstream-always-take":  {true, "`SyncAlways`"},
	"jetstream-default":      {false, "synced every two minutes"},
	"jetstream-default-take": {false, "synced every two minutes"},
}
