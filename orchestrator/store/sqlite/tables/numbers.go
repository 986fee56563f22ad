package tables

import "mailroom/orchestrator/store"

// SQLite numbers the rows: each number is one more than the largest that was ever used. Anybody can write a row with
// another number by hand. After the largest possible number SQLite gives out no more, and nobody could send a
// message or do anything else that is traced. If an archived message has the number of another message, neither that
// message nor the others that are archived with it could be archived.

// IsExhausted reports whether SQLite has almost no numbers left for the rows of a table.
func (k Keeper) IsExhausted() bool {
	for _, n := range store.Numbered {
		if last, err := k.lastOf(n.Table, n.Column); err == nil && last >= store.AlarmedNumber {
			return true
		}
	}
	return false
}

// lastOf returns the largest number of a table, from which SQLite continues.
func (k Keeper) lastOf(table, column string) (int64, error) {
	return k.Number(`SELECT ` + lastNumber(table, column))
}

// lastNumber returns an SQL expression for the largest number of a table.
func lastNumber(table, column string) string {
	return `max(coalesce((SELECT max(` + column + `) FROM ` + table + `), 0),
		coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = '` + table + `'), 0))`
}

// Renumber gives rows whose numbers are out of range the next numbers, in their order. A row that cannot be changed
// keeps its number.
func (k Keeper) Renumber() error {
	for _, n := range store.Numbered {
		if err := k.renumberTable(n.Table, n.Column); err != nil {
			return err
		}
	}
	return nil
}

// RenumberMessages gives new numbers to messages whose numbers are out of range, including archived messages.
func (k Keeper) RenumberMessages() error {
	const archived = `coalesce((SELECT max(seq) FROM agent_message_archive), 0)`
	last, err := k.Number(`SELECT max(` + archived + `, ` + lastNumber("agent_message", "seq") + `)`)
	if err != nil || last <= store.MaxNumber {
		return err
	}
	for _, table := range []string{"agent_message_archive", "agent_message"} {
		if err := k.renumberTable(table, "seq"); err != nil {
			return err
		}
	}
	_, err = k.Exec(`UPDATE sqlite_sequence SET seq = max(seq, ` + archived + `) WHERE name = 'agent_message'`)
	return err
}

func (k Keeper) renumberTable(table, column string) error {
	used := []string{`SELECT max(` + column + `) FROM ` + table + ` WHERE ` + column + ` <= ?`}
	if column == "seq" { // rows move between these tables, and are counted up to a number
		used = append(used, `SELECT max(seq) FROM agent_message WHERE seq <= ?`,
			`SELECT max(seq) FROM agent_message_archive WHERE seq <= ?`,
			`SELECT max(n) FROM message_count WHERE recipient = '' AND state = 'counted' AND n <= ?`,
			// An agent owns the messages after this number.
			`SELECT max(CAST(value AS INTEGER)) FROM settings WHERE key LIKE 'former.%'
				AND CAST(value AS INTEGER) <= ?`)
	}
	next := int64(0)
	for _, query := range used {
		last, err := k.Number(query, store.MaxNumber)
		if err != nil {
			return err
		}
		next = max(next, last)
	}
	var beyond []int64
	err := k.Query(`SELECT `+column+` FROM `+table+` WHERE `+column+` > ?1 ORDER BY 1`, func(row store.Row) error {
		beyond = append(beyond, row.Int(0))
		return nil
	}, store.MaxNumber)
	if err != nil {
		return err
	}
	for _, number := range beyond {
		next++
		if _, err := k.Exec(`UPDATE `+table+` SET `+column+` = ? WHERE `+column+` = ?`, next, number); err != nil &&
			k.Broken() {
			return err
		}
	}
	_, err = k.Exec(`UPDATE sqlite_sequence SET seq = ? WHERE name = ?`, next, table)
	return err
}

// RenumberArchived gives the next numbers to the rows of temp.batch whose numbers are used by archived messages.
func (k Keeper) RenumberArchived() error {
	var taken []int64
	err := k.Query(`SELECT b.seq FROM temp.batch b JOIN agent_message_archive a ON a.seq = b.seq ORDER BY b.seq`,
		func(row store.Row) error {
			taken = append(taken, row.Int(0))
			return nil
		})
	if err != nil || len(taken) == 0 {
		return err
	}
	next, err := k.Number(`SELECT max(` + lastNumber("agent_message", "seq") +
		`, (SELECT max(seq) FROM agent_message_archive))`)
	if err != nil {
		return err
	}
	for _, seq := range taken {
		next++
		for _, statement := range []string{`UPDATE agent_message SET seq = ? WHERE seq = ?`,
			`UPDATE temp.batch SET seq = ? WHERE seq = ?`} {
			if _, err := k.Exec(statement, next, seq); err != nil {
				return err
			}
		}
	}
	_, err = k.Exec(`UPDATE sqlite_sequence SET seq = ? WHERE name = 'agent_message'`, next)
	return err
}
