package orchestrator

// configVersion is the row of settings whose value changes whenever agents, groups or settings do.
const configVersion = "config.version"

// databaseID is the row of settings that tells databases apart. Copies have the same, wherever they are.
const databaseID = "database.id"

// storeSetting sets the row ?1 of settings to ?2, at ?3.
const storeSetting = `
	INSERT INTO settings (key, value, updated_at) VALUES (?1, ?2, ?3)
	ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at`
