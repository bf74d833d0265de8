//! What a benchmark found: tables, goals; as text and as JSON.

use crate::error::{BenchError, Result};
use crate::machine::Machine;
use serde_json::{Map, Value, json};
use std::fmt;
use std::fs;
use std::path::Path;

/// All findings of one benchmark.
#[derive(Debug)]
pub(crate) struct Report {
    name: &'static str,
    machine: Machine,
    tables: Vec<Table>,
    goals: Vec<Goal>,
}

/// A table; the first column names the row.
#[derive(Debug)]
pub(crate) struct Table {
    title: &'static str,
    columns: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    notes: Vec<String>,
}

/// A figure with its unit, or a text.
#[derive(Debug, Clone)]
pub(crate) enum Cell {
    /// Words.
    Text(String),
    /// A number, shown with so many digits behind the point.
    Number(f64, usize),
}

/// A goal that an issue named.
#[derive(Debug, Clone)]
pub(crate) struct Goal {
    /// What is measured, with its unit.
    pub(crate) what: &'static str,
    /// What came out.
    pub(crate) figure: f64,
    /// What was wanted.
    pub(crate) goal: f64,
    /// Is more better? Otherwise the figure must be below the goal.
    pub(crate) more_is_better: bool,
}

impl Cell {
    /// Milliseconds, or whatever is shown with two digits behind the point.
    pub(crate) fn fine(number: f64) -> Cell {
        Cell::Number(number, 2)
    }

    /// A count.
    pub(crate) fn whole(number: f64) -> Cell {
        Cell::Number(number, 0)
    }

    fn json(&self) -> Value {
        match self {
            Cell::Text(text) => json!(text),
            Cell::Number(number, digits) => {
                let scale = 10_f64.powi(i32::try_from(*digits).unwrap_or(0));
                json!((number * scale).round() / scale)
            }
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Text(text) => f.pad(text),
            Cell::Number(number, digits) => f.pad(&format!("{number:.digits$}")),
        }
    }
}

impl Goal {
    /// Is it met?
    pub(crate) fn is_met(&self) -> bool {
        if self.more_is_better { self.figure >= self.goal } else { self.figure < self.goal }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.more_is_better { "at least" } else { "under" };
        let verdict = if self.is_met() { "met" } else { "short of goal" };
        let digits = if self.figure < 100.0 { 2 } else { 0 };
        write!(f, "{}: {:.digits$}, goal {sign} {}: {verdict}", self.what, self.figure, self.goal)
    }
}

impl Table {
    /// An empty table.
    pub(crate) fn new(title: &'static str, columns: &[&'static str]) -> Table {
        Table { title, columns: columns.to_vec(), rows: Vec::new(), notes: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, name: &str, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(std::iter::once(Cell::from(name)).chain(cells).collect());
    }

    /// Adds a line below the table.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.to_string().chars().count());
        cells.chain(self.columns.get(column).map(|heading| heading.chars().count())).max().unwrap_or(0)
    }

    fn json(&self) -> Value {
        let row = |row: &Vec<Cell>| -> Value {
            let named = self.columns.iter().zip(row).map(|(column, cell)| (column.replace(' ', "_"), cell.json()));
            Value::Object(named.collect::<Map<_, _>>())
        };
        json!({ "title": self.title, "rows": self.rows.iter().map(row).collect::<Vec<_>>(), "notes": self.notes })
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{}", self.title)?;
        let widths: Vec<usize> = (0..self.columns.len()).map(|column| self.width(column)).collect();
        let headings: Vec<Cell> = self.columns.iter().map(|heading| Cell::from(*heading)).collect();
        for row in std::iter::once(&headings).chain(&self.rows) {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                line += &if column == 0 { format!("  {cell:<width$}") } else { format!("  {cell:>width$}") };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "  {note}"))
    }
}

impl Report {
    /// Begins the report of the benchmark `name` with the machine's line.
    pub(crate) fn begin(name: &'static str) -> Report {
        let machine = Machine::now();
        println!("cargo xtask bench {name}: {machine}");
        Report { name, machine, tables: Vec::new(), goals: Vec::new() }
    }

    /// Prints a table and keeps it.
    pub(crate) fn table(&mut self, table: Table) {
        print!("{table}");
        self.tables.push(table);
    }

    /// Keeps a goal's figure.
    pub(crate) fn goal(&mut self, goal: Goal) {
        self.goals.push(goal);
    }

    /// Prints the goals and writes everything as JSON into the folder.
    pub(crate) fn finish(self, folder: &Path) -> Result<()> {
        println!();
        self.goals.iter().for_each(|goal| println!("{goal}"));
        let goals = self.goals.iter().map(|goal| {
            let verdict = if goal.is_met() { "met" } else { "short of goal" };
            json!({ "what": goal.what, "figure": goal.figure, "goal": goal.goal, "verdict": verdict })
        });
        let json = json!({
            "command": format!("cargo xtask bench {}", self.name),
            "machine": { "cores": self.machine.cores, "kernel": self.machine.kernel, "load": self.machine.load },
            "tables": self.tables.iter().map(Table::json).collect::<Vec<_>>(),
            "goals": goals.collect::<Vec<_>>(),
        });
        let file = folder.join(format!("{}.json", self.name));
        fs::write(&file, format!("{json:#}\n")).map_err(BenchError::io(format!("write '{}'", file.display())))?;
        println!("written to {}", file.display());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_goal_is_met_on_its_side_only() {
        let below = Goal { what: "bytes", figure: 750.0, goal: 750.0, more_is_better: false };
        assert_eq!(below.to_string(), "bytes: 750, goal under 750: short of goal");
        let above = Goal { what: "rate", figure: 1000.0, goal: 1000.0, more_is_better: true };
        assert!(above.is_met());
    }

    #[test]
    fn a_table_is_aligned_and_its_json_is_numbers() {
        let mut table = Table::new("title", &["name", "time ms"]);
        table.row("a", [Cell::fine(1.0)]);
        table.row("longer", [Cell::whole(1234.4)]);
        assert_eq!(table.to_string(), "\ntitle\n  name    time ms\n  a          1.00\n  longer     1234\n");
        assert_eq!(table.json()["rows"][1], json!({ "name": "longer", "time_ms": 1234.0 }));
    }
}
