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
/// The axis of times, in seconds.
const TIMES: (f64, f64) = (0.1, 100_000.0);

/// All panels of one size, as SVG.
pub(super) fn svg(cells: &[&Cell]) -> String {
    let rows = cells.len().div_ceil(COLUMNS);
    let (width, height) = (WIDTH * COLUMNS as f64, HEIGHT * rows as f64 + AROUND);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"10\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    for (number, cell) in cells.iter().enumerate() {
        let (x, y) = ((number % COLUMNS) as f64 * WIDTH, (number / COLUMNS) as f64 * HEIGHT);
        panel(&mut text, cell, (x, y));
    }
    let _ = writeln!(
        text,
        "<text x=\"8\" y=\"{}\">seconds over kbit/s: best value (grey), operation (blue), chosen (circles)</text>\n</svg>",
        height - 8.0
    );
    text
}

fn panel(text: &mut String, cell: &Cell, (x, y): (f64, f64)) {
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
    for seconds in [1.0, 100.0, 10_000.0] {
        let at = y + down(Duration::from_secs_f64(seconds)) + 3.0;
        let _ = writeln!(text, "<text x=\"{}\" y=\"{at}\" text-anchor=\"end\">{seconds}</text>", x + LEFT - 4.0);
    }
    for (trace, colour) in [(&cell.value, "#888"), (&cell.operation, "#06c")] {
        let points = RATES.map(|rate| format!("{:.1},{:.1}", x + across(rate), y + down(trace.time(link(rate)))));
        let _ = writeln!(text, "<polyline points=\"{}\" stroke=\"{colour}\" fill=\"none\"/>", points.join(" "));
    }
    for (number, rate) in RATES.into_iter().enumerate() {
        let (cx, cy) = (x + across(rate), y + down(cell.chosen(number)));
        let _ = writeln!(text, "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"3\" stroke=\"#c30\" fill=\"none\"/>");
    }
}

fn across(rate: u64) -> f64 {
    let (low, high) = ((RATES[0] as f64).ln(), (RATES[RATES.len() - 1] as f64).ln());
    LEFT + 10.0 + (WIDTH - LEFT - AROUND - 20.0) * ((rate as f64).ln() - low) / (high - low)
}

fn down(time: Duration) -> f64 {
    let seconds = time.as_secs_f64().clamp(TIMES.0, TIMES.1);
    let share = (seconds / TIMES.0).ln() / (TIMES.1 / TIMES.0).ln();
    HEIGHT - AROUND - (HEIGHT - 2.0 * AROUND) * share
}
