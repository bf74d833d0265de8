//! What was spent on each link: one SQLite database of the user, shared by all working copies and processes.

use super::clock::Reading;
use super::config::Budget;
use crate::ClientError;
use crate::db::{int, uint};
use crate::layout::make_private;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use std::path::Path;
use std::time::Duration;

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS spent (
    link TEXT NOT NULL, period TEXT NOT NULL, bytes INTEGER NOT NULL, PRIMARY KEY (link, period)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS clock (
    one INTEGER PRIMARY KEY CHECK (one = 1), time INTEGER NOT NULL, boot TEXT NOT NULL, uptime INTEGER NOT NULL,
    day TEXT NOT NULL
);
";

/// Periods kept for one link: a day's row for two months, and the months.
const KEPT_DAYS: u32 = 62;

/// The database.
#[derive(Debug)]
pub(super) struct Ledger(Connection);

/// What was spent on a link, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    /// Today.
    pub day: u64,
    /// This month.
    pub month: u64,
}

/// Bytes that were set aside.
#[derive(Debug, Clone, Default)]
pub(super) struct Lease {
    pub(super) bytes: u64,
    day: String,
    month: String,
}

impl Ledger {
    pub(super) fn open(file: &Path) -> Result<Ledger, ClientError> {
        if let Some(folder) = file.parent() {
            make_private(folder)?;
        }
        let mut connection = Connection::open(file)?;
        connection.busy_timeout(Duration::from_secs(30))?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        // Who looks first and then writes is not waited for, nor is a change to a write-ahead log: of processes that open a
        // new one together all but one would fail.
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(SCHEMA)?;
        transaction.commit()?;
        Ok(Ledger(connection))
    }

    /// Sets bytes aside, as many as wanted and left; they count as spent until they are given back. `strict`: no more
    /// than the budget allows.
    pub(super) fn set_aside(
        &mut self,
        link: &str,
        budget: &Budget,
        wanted: u64,
        strict: bool,
        now: Reading,
    ) -> Result<Lease, ClientError> {
        let transaction = self.0.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let (day, month) = periods(&transaction, now)?;
        let left = left(budget, spent(&transaction, link, &day, &month)?);
        let bytes = if strict { wanted.min(left.unwrap_or(u64::MAX)) } else { wanted };
        if bytes > 0 {
            for period in [&day, &month] {
                transaction.execute(
                    "INSERT INTO spent (link, period, bytes) VALUES (?1, ?2, ?3)
                     ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes",
                    params![link, period, int(bytes)],
                )?;
            }
        }
        transaction.commit()?;
        Ok(Lease { bytes, day, month })
    }

    /// Gives back what is left of a lease.
    pub(super) fn give_back(&mut self, link: &str, lease: &Lease) -> Result<(), ClientError> {
        let transaction = self.0.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for period in [&lease.day, &lease.month] {
            transaction.execute(
                "UPDATE spent SET bytes = max(bytes - ?3, 0) WHERE link = ?1 AND period = ?2",
                params![link, period, int(lease.bytes)],
            )?;
        }
        Ok(transaction.commit()?)
    }

    /// What was spent today and this month.
    pub(super) fn spent(&mut self, link: &str, now: Reading) -> Result<Spent, ClientError> {
        let transaction = self.0.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let (day, month) = periods(&transaction, now)?;
        let spent = spent(&transaction, link, &day, &month)?;
        transaction.commit()?;
        Ok(spent)
    }
}

/// What is left of a budget; `None`: there is no limit.
pub(super) fn left(budget: &Budget, spent: Spent) -> Option<u64> {
    let of = |limit: Option<super::Size>, spent: u64| limit.map(|limit| limit.bytes().saturating_sub(spent));
    let (day, month) = (of(budget.day, spent.day), of(budget.month, spent.month));
    day.into_iter().chain(month).min()
}

fn spent(transaction: &Transaction<'_>, link: &str, day: &str, month: &str) -> Result<Spent, ClientError> {
    let of = |period: &str| -> rusqlite::Result<u64> {
        let sql = "SELECT bytes FROM spent WHERE link = ?1 AND period = ?2";
        let bytes: Option<i64> = transaction.query_row(sql, [link, period], |row| row.get(0)).optional()?;
        Ok(uint(bytes.unwrap_or(0)))
    };
    Ok(Spent { day: of(day)?, month: of(month)? })
}

/// The periods that count now, and the clock that says so, remembered.
fn periods(transaction: &Transaction<'_>, now: Reading) -> Result<(String, String), ClientError> {
    let sql = "SELECT time, boot, uptime, day FROM clock";
    let last = transaction
        .query_row(sql, [], |row| {
            let reading = Reading { time: uint(row.get(0)?), boot: row.get(1)?, uptime: uint(row.get(2)?) };
            Ok((reading, row.get::<_, String>(3)?))
        })
        .optional()?;
    let now = now.after(last.as_ref().map(|(reading, _)| reading));
    let (mut day, mut month) = now.periods();
    // Another time zone does not bring a day back.
    if let Some((_, last)) = last.filter(|(_, last)| *last > day) {
        month = last.get(..7).unwrap_or(&last).to_owned();
        day = last;
    }
    transaction.execute(
        "INSERT OR REPLACE INTO clock (one, time, boot, uptime, day) VALUES (1, ?1, ?2, ?3, ?4)",
        params![int(now.time), now.boot, int(now.uptime), day],
    )?;
    transaction.execute(
        "DELETE FROM spent WHERE length(period) = 10 AND period < (SELECT period FROM (
             SELECT DISTINCT period FROM spent WHERE length(period) = 10 ORDER BY period DESC LIMIT ?1
         ) ORDER BY period LIMIT 1)",
        [KEPT_DAYS],
    )?;
    Ok((day, month))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(time: u64) -> Reading {
        Reading { time: 1_750_000_000 + time, boot: "a".to_owned(), uptime: time }
    }

    fn budget(day: &str, month: Option<&str>) -> Budget {
        Budget { day: Some(day.parse().unwrap()), month: month.map(|month| month.parse().unwrap()) }
    }

    #[test]
    fn what_is_set_aside_is_never_more_than_the_budget_whoever_asks() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sub/budget.db");
        let (budget, day) = (budget("1 MB", None), 86_400);
        let all: u64 = std::thread::scope(|threads| {
            let spenders: Vec<_> = (0..4)
                .map(|_| {
                    threads.spawn(|| {
                        let mut ledger = Ledger::open(&file).unwrap();
                        (0..30).map(|_| ledger.set_aside("a", &budget, 10_007, true, at(0)).unwrap().bytes).sum::<u64>()
                    })
                })
                .collect();
            spenders.into_iter().map(|spender| spender.join().unwrap()).sum()
        });
        assert_eq!(all, 1_000_000);
        let mut ledger = Ledger::open(&file).unwrap();
        let lease = ledger.set_aside("a", &budget, 1, true, at(1)).unwrap();
        assert_eq!(lease.bytes, 0);
        assert_eq!(ledger.set_aside("b", &budget, 7, true, at(1)).unwrap().bytes, 7, "another link");
        assert_eq!(ledger.set_aside("a", &budget, 5, false, at(1)).unwrap().bytes, 5, "anyway");
        assert_eq!(ledger.spent("a", at(1)).unwrap().day, 1_000_005);
        // The next day, and the month that goes on.
        let lease = ledger.set_aside("a", &budget, 100, true, at(day)).unwrap();
        ledger.give_back("a", &Lease { bytes: 40, ..lease }).unwrap();
        let spent = ledger.spent("a", at(day)).unwrap();
        assert_eq!((spent.day, spent.month), (60, 1_000_065));
    }

    #[test]
    fn turning_the_clock_gives_no_second_budget() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(&folder.path().join("budget.db")).unwrap();
        let budget = budget("1 kB", Some("5 kB"));
        assert_eq!(ledger.set_aside("a", &budget, 5000, true, at(0)).unwrap().bytes, 1000);
        for time in [86_400 * 3, 0, 86_400 * 40] {
            let turned = Reading { uptime: 10, ..at(time) };
            assert_eq!(ledger.set_aside("a", &budget, 1, true, turned).unwrap().bytes, 0, "{time}");
        }
        // Real days.
        for day in 1..7 {
            let expected = if day < 5 { 1000 } else { 0 };
            assert_eq!(ledger.set_aside("a", &budget, 5000, true, at(day * 86_400)).unwrap().bytes, expected, "{day}");
        }
    }

    #[test]
    fn old_days_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(&folder.path().join("budget.db")).unwrap();
        for day in 0..200 {
            ledger.set_aside("a", &budget("1 kB", None), 1, true, at(day * 86_400)).unwrap();
        }
        let rows: u32 = ledger.0.query_row("SELECT count(*) FROM spent", [], |row| row.get(0)).unwrap();
        assert!(rows <= KEPT_DAYS + 1 + 8, "{rows}");
    }
}
