package store

// ConfigVersion is the row of settings whose value changes whenever agents, groups or settings do.
const ConfigVersion = "config.version"

// DatabaseID is the row of settings that tells databases apart. Copies have the same, wherever they are.
const DatabaseID = "database.id"

// StoreSetting sets the row ?1 of settings to ?2, at ?3.
const StoreSetting = `
	INSERT INTO settings (key, value, updated_at) VALUES (?1, ?2, ?3)
	ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at`
