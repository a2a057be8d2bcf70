//! A QR code as text: two rows of modules a line, in colours of its own, so that it reads on dark and light terminals.

use anstyle::{Ansi256Color, Color, Style};
use qrcode::{Color as Module, EcLevel, QrCode};

/// Light modules around the code, without which readers do not find it.
const QUIET: usize = 4;
/// Black and white of the fixed part of the palette: themes do not change it.
const BLACK: Ansi256Color = Ansi256Color(16);
const WHITE: Ansi256Color = Ansi256Color(231);

/// The lines of a code, or none if the text is too long for one.
pub(crate) fn lines(text: &str) -> Option<Vec<String>> {
    // The lowest level of correction: a screen has no scratches, and a smaller code has larger modules.
    let code = QrCode::with_error_correction_level(text, EcLevel::L).ok()?;
    let (width, modules) = (code.width(), code.to_colors());
    let full = width + 2 * QUIET;
    let dark = |row: usize, column: usize| {
        let inside = |at: usize| (QUIET..QUIET + width).contains(&at);
        inside(row) && inside(column) && modules[(row - QUIET) * width + column - QUIET] == Module::Dark
    };
    let style = Style::new().fg_color(Some(Color::Ansi256(BLACK))).bg_color(Some(Color::Ansi256(WHITE)));
    let line = |row: usize| {
        let halves = (0..full).map(|column| match (dark(row, column), dark(row + 1, column)) {
            (true, true) => '█',
            (true, false) => '▀',
            (false, true) => '▄',
            (false, false) => ' ',
        });
        format!("{style}{}{style:#}", halves.collect::<String>())
    };
    Some((0..full).step_by(2).map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_a_light_square_with_its_three_marks() {
        let url = format!("http://192.168.178.20:4517/pair#token=sbx_pair_{}", "x".repeat(43));
        let lines = lines(&url).unwrap();
        let plain: Vec<Vec<char>> = lines
            .iter()
            .map(|line| anstream::adapter::strip_str(line).to_string().chars().collect())
            .collect();
        let width = plain[0].len();
        assert!(width <= 80, "{width} columns fit into a terminal");
        assert!(plain.iter().all(|line| line.len() == width) && plain.len() == width.div_ceil(2));
        assert!(plain[0].iter().chain(&plain[1]).all(|half| *half == ' '), "a quiet border");
        // The mark in the upper left: a dark ring of seven, a light one, a dark middle.
        let mark: Vec<String> = plain[2..6].iter().map(|line| line[4..11].iter().collect()).collect();
        assert_eq!(mark, ["█▀▀▀▀▀█", "█ ███ █", "█ ▀▀▀ █", "▀▀▀▀▀▀▀"]);
        assert!(lines[3].starts_with("\u{1b}["), "in colours of its own");
        assert_eq!(super::lines(&"x".repeat(5000)), None);
    }
}
