//! Elapsed time over bandwidth, a panel a test, as the paper's Figure 7 shows it; both axes logarithmic.

use super::measure::{Cell, RATES, link};
use std::fmt::Write;
use std::time::Duration;

const COLUMNS: usize = 4;
const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 180.0;
/// Room around a panel's lines.
const LEFT: f64 = 40.0;
const AROUND: f64 = 24.0;
/// Where the axis of times begins, in seconds.
const BEGIN: f64 = 0.1;

/// All panels of one size, as SVG.
pub(super) fn svg(cells: &[&Cell]) -> String {
    let rows = cells.len().div_ceil(COLUMNS);
    let (width, height) = (WIDTH * COLUMNS as f64, HEIGHT * rows as f64 + AROUND);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"10\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    let longest = cells.iter().map(|cell| cell.value.time(link(RATES[0])).as_secs_f64()).fold(1.0, f64::max);
    let end = 10_f64.powf(longest.log10().ceil());
    for (number, cell) in cells.iter().enumerate() {
        let (x, y) = ((number % COLUMNS) as f64 * WIDTH, (number / COLUMNS) as f64 * HEIGHT);
        panel(&mut text, cell, (x, y), end);
    }
    let _ = writeln!(
        text,
        "<text x=\"8\" y=\"{}\">seconds over kbit/s: best value (grey), operation (blue), chosen (circles)</text>\n</svg>",
        height - 8.0
    );
    text
}

/// One test's lines; its axis of times ends with so many seconds.
fn panel(text: &mut String, cell: &Cell, (x, y): (f64, f64), end: f64) {
    let bottom = y + HEIGHT - AROUND;
    let _ = writeln!(text, "<text x=\"{}\" y=\"{}\" font-weight=\"bold\">{}</text>", x + LEFT, y + 14.0, cell.name);
    let _ = writeln!(
        text,
        "<path d=\"M{} {}V{bottom}H{}\" stroke=\"#999\" fill=\"none\"/>",
        x + LEFT,
        y + AROUND,
        x + WIDTH - AROUND
    );
    for rate in RATES {
        let at = x + across(rate);
        let _ = writeln!(
            text,
            "<text x=\"{at}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 12.0,
            rate as f64 / 1e3
        );
    }
    for seconds in [1.0, 10.0, 100.0, 1_000.0, 10_000.0].into_iter().filter(|seconds| *seconds <= end) {
        let at = y + down(Duration::from_secs_f64(seconds), end) + 3.0;
        let _ = writeln!(text, "<text x=\"{}\" y=\"{at}\" text-anchor=\"end\">{seconds}</text>", x + LEFT - 4.0);
    }
    for (trace, colour) in [(&cell.value, "#888"), (&cell.operation, "#06c")] {
        let points = RATES.map(|rate| format!("{:.1},{:.1}", x + across(rate), y + down(trace.time(link(rate)), end)));
        let _ = writeln!(text, "<polyline points=\"{}\" stroke=\"{colour}\" fill=\"none\"/>", points.join(" "));
    }
    for (number, rate) in RATES.into_iter().enumerate() {
        let (cx, cy) = (x + across(rate), y + down(cell.chosen(number), end));
        let _ = writeln!(text, "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"3\" stroke=\"#c30\" fill=\"none\"/>");
    }
}

fn across(rate: u64) -> f64 {
    let (low, high) = ((RATES[0] as f64).ln(), (RATES[RATES.len() - 1] as f64).ln());
    LEFT + 10.0 + (WIDTH - LEFT - AROUND - 20.0) * ((rate as f64).ln() - low) / (high - low)
}

fn down(time: Duration, end: f64) -> f64 {
    let share = (time.as_secs_f64().clamp(BEGIN, end) / BEGIN).ln() / (end / BEGIN).ln();
    HEIGHT - AROUND - (HEIGHT - 2.0 * AROUND) * share
}
