//! Settings of workspaces: those that were set; others have their default.

use super::Result;
use crate::settings::{Setting, Settings};
use rusqlite::{Connection, params};

/// A workspace's settings. One that a newer opship wrote and this one does not know has its default.
pub(crate) fn of(connection: &Connection, workspace: i64) -> Result<Settings> {
    let mut find = connection.prepare_cached("SELECT name, value FROM setting WHERE workspace = ?1")?;
    let mut rows = find.query([workspace])?;
    let mut settings = Settings::default();
    while let Some(row) = rows.next()? {
        if let Ok(setting) = Setting::parse(&row.get::<_, String>(0)?, &row.get::<_, String>(1)?) {
            settings.set(setting);
        }
    }
    Ok(settings)
}

/// Sets one.
pub(crate) fn set(connection: &Connection, workspace: i64, setting: Setting) -> Result<()> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO setting (workspace, name, value) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET value = excluded.value",
    )?;
    insert.execute(params![workspace, setting.name(), setting.to_string()])?;
    Ok(())
}
