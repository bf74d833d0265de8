//! The tables, and whether the goals are met.

use super::copy::Way;
use super::measure::{Cell, DELAY, RATES, link};
use crate::report::{Cell as Field, Goal, Report, Table};
use opship_tap::with_headers;
use std::time::Duration;

macro_rules! size {
    ($bytes:expr, $name:literal) => {
        Size {
            bytes: $bytes,
            name: $name,
            least: concat!($name, ": least reduction against plain values"),
            reduced: concat!($name, ": tests with a reduction over 20, %"),
            faster: concat!($name, ": tests with a speed-up over 10 at 9.6 kbit/s against the best value, %"),
            faster_than_plain: concat!(
                $name,
                ": tests with a speed-up over 10 at 9.6 kbit/s against the plain value, %"
            ),
        }
    };
}

/// The sizes, of results, with the words of their goals.
pub(super) const SIZES: [Size; 5] = [
    size!(16 << 10, "16KB"),
    size!(64 << 10, "64KB"),
    size!(256 << 10, "256KB"),
    size!(1 << 20, "1MB"),
    size!(16 << 20, "16MB"),
];

/// A size with its goals.
pub(super) struct Size {
    pub(super) bytes: usize,
    pub(super) name: &'static str,
    least: &'static str,
    reduced: &'static str,
    faster: &'static str,
    faster_than_plain: &'static str,
}

const TIMES: [&str; 21] = [
    "test",
    "size",
    "computing: value s",
    "operation s",
    "choosing s",
    "9.6k: value s",
    "9.6k operation s",
    "9.6k times",
    "9.6k chosen",
    "28.8k: value s",
    "28.8k operation s",
    "28.8k times",
    "28.8k chosen",
    "64k: value s",
    "64k operation s",
    "64k times",
    "64k chosen",
    "1M: value s",
    "1M operation s",
    "1M times",
    "1M chosen",
];

/// What the better of two plain figures may be beyond the best value time, and still count as not slower.
const SLOWER: (f64, Duration) = (1.05, Duration::from_millis(50));

impl Cell {
    /// Plain bytes by those of the operation with all known.
    pub(super) fn reduction(&self) -> f64 {
        self.plain as f64 / self.operation.bytes().max(1) as f64
    }

    /// The best value time by the operation's, at a rate.
    pub(super) fn speed_up(&self, rate: u64) -> f64 {
        self.value.time(link(rate)).as_secs_f64() / self.operation.time(link(rate)).as_secs_f64()
    }

    /// The plain value's time, in one exchange, by the operation's, at a rate: the paper's speed-up, whose values were plain.
    fn plain_speed_up(&self, rate: u64) -> f64 {
        let link = link(rate);
        let plain = self.value.computing + 2 * DELAY;
        let plain = plain.as_secs_f64() + with_headers(self.plain) as f64 / link.rate as f64;
        plain / self.operation.time(link).as_secs_f64()
    }

    /// The time of the way that would be chosen at the rate of this number, with the time of choosing.
    pub(super) fn chosen(&self, number: usize) -> Duration {
        let link = link(RATES[number]);
        let (operation, value) = (self.operation.time(link), self.value.time(link));
        self.choosing
            + match self.ways[number] {
                Way::Operation => operation,
                Way::Value => value,
                Way::Mixed => operation.max(value),
            }
    }

    fn is_slower(&self, number: usize) -> bool {
        let value = self.value.time(link(RATES[number]));
        self.chosen(number) > value.mul_f64(SLOWER.0) + SLOWER.1
    }
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Operation => "operation",
            Way::Value => "value",
            Way::Mixed => "both",
        }
    }
}

/// Adds the tables of all cells, and the goals.
pub(super) fn add(cells: &[Cell], report: &mut Report) {
    report.table(bytes(cells));
    report.table(times(cells));
    for size in &SIZES {
        goals_of(size, cells.iter().filter(|cell| cell.size == size.bytes).collect(), report);
    }
    let slower = cells.iter().flat_map(|cell| (0..RATES.len()).filter(|rate| cell.is_slower(*rate))).count();
    report.goal(Goal {
        what: "cells in which the choice is slower than 1.05 times the best value time + 50 ms",
        figure: slower as f64,
        goal: 1.0,
        more_is_better: false,
    });
    let beyond = cells.iter().map(|cell| cell.operation.on_link(link(RATES[0]))).max().unwrap_or_default();
    report.goal(Goal {
        what: "operation at 9.6 kbit/s, all known, time beyond computing, s",
        figure: beyond.as_secs_f64(),
        goal: (DELAY * 2).as_secs_f64() + 1.0,
        more_is_better: false,
    });
}

fn bytes(cells: &[Cell]) -> Table {
    let columns = [
        "test",
        "size",
        "value plain",
        "compressed",
        "best",
        "rsync -z",
        "operation: first ever",
        "module known",
        "all known",
        "round trips",
        "reduction",
    ];
    let mut table = Table::new("Bytes above IP, both ways, on an open connection", &columns);
    for cell in cells {
        let counts = [
            cell.plain,
            cell.compressed,
            cell.value.bytes(),
            cell.rsync.bytes(),
            cell.first,
            cell.new_inputs,
            cell.operation.bytes(),
        ];
        let counts = counts.map(|count| Field::whole(count as f64));
        let rest = [Field::Number(cell.operation.round_trips(), 1), Field::Number(cell.reduction(), 1)];
        table.row(cell.name, std::iter::once(Field::from(size_name(cell))).chain(counts).chain(rest));
    }
    table.note("value plain: the updated files as they are; compressed: each by zstd -3; best: all of 'opship sync --ship value'.");
    table
        .note("Of what travels: streams, and 20 bytes of TCP header for each 1,460; acknowledgements are not counted.");
    table.note("operation, first ever: with inputs, modules and what a copy's first sync asks; modules were taken along once, their bytes are added.");
    table.note(
        "reduction: value plain by all known. All operations matched, so nothing was left to repair: no residuals.",
    );
    table
}

fn times(cells: &[Cell]) -> Table {
    let mut table =
        Table::new("Time of propagation: link in virtual time, round trip 100 ms, and measured computing", &TIMES);
    for cell in cells {
        let computing = [cell.value.computing, cell.operation.computing, cell.choosing];
        let computing = computing.map(|time| Field::fine(time.as_secs_f64()));
        let at = |(number, rate): (usize, &u64)| {
            let seconds = |time: Duration| Field::fine(time.as_secs_f64());
            let way = format!("{}{}", cell.ways[number].name(), if cell.is_slower(number) { " SLOWER" } else { "" });
            [
                seconds(cell.value.time(link(*rate))),
                seconds(cell.operation.time(link(*rate))),
                Field::Number(cell.speed_up(*rate), 1),
                Field::Text(way),
            ]
        };
        let rates = RATES.iter().enumerate().flat_map(at);
        table.row(cell.name, std::iter::once(Field::from(size_name(cell))).chain(computing).chain(rates));
    }
    table.note("value: the best, ours; times: value by operation; all known; opening the connection not included.");
    table.note("computing: the whole sync on loopback, both ends. chosen: what '--ship auto' takes when this link was measured; SLOWER: beyond");
    table.note("1.05 times the value's time + 50 ms, the time of choosing ('sync --dry-run' beyond one with nothing to ship) added; both: the slower of the two counts.");
    table
}

fn size_name(cell: &Cell) -> &'static str {
    SIZES.iter().find(|size| size.bytes == cell.size).map_or("", |size| size.name)
}

fn goals_of(size: &Size, cells: Vec<&Cell>, report: &mut Report) {
    if cells.is_empty() {
        return;
    }
    let share = |is_one: &dyn Fn(&Cell) -> bool| {
        100.0 * cells.iter().filter(|cell| is_one(cell)).count() as f64 / cells.len() as f64
    };
    let least = cells.iter().map(|cell| cell.reduction()).fold(f64::INFINITY, f64::min);
    let reduced = share(&|cell| cell.reduction() > 20.0);
    let faster = share(&|cell| cell.speed_up(RATES[0]) > 10.0);
    let faster_than_plain = share(&|cell| cell.plain_speed_up(RATES[0]) > 10.0);
    for (what, figure, goal) in [
        (size.least, least, 12.0),
        (size.reduced, reduced, 81.25),
        (size.faster, faster, 50.0),
        (size.faster_than_plain, faster_than_plain, 50.0),
    ] {
        report.goal(Goal { what, figure, goal, more_is_better: true });
    }
}
