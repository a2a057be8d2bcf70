//! Percentiles, and what the kernel says of a process.

use std::time::Duration;

/// The value below which this share (0 to 1) of the samples lies. Sorts them.
pub(crate) fn percentile(samples: &mut [Duration], share: f64) -> Duration {
    samples.sort_unstable();
    let last = samples.len().saturating_sub(1);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    let place = (last as f64 * share).round() as usize;
    samples.get(place).copied().unwrap_or_default()
}

/// Resident memory of a process in KiB.
pub(crate) fn rss_kib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB")?.trim().parse().ok())
}

/// Processor time of a process and all its threads so far. The kernel counts in hundredths of a second.
pub(crate) fn cpu(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 10))
}

/// `12.3 ms` or `45 µs`.
pub(crate) fn time(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    match micros {
        micros if micros >= 1e6 => format!("{:.2} s", micros / 1e6),
        micros if micros >= 1e3 => format!("{:.2} ms", micros / 1e3),
        micros if micros >= 10.0 => format!("{micros:.0} µs"),
        micros => format!("{micros:.2} µs"),
    }
}

/// The median and the 99th percentile.
pub(crate) fn both(samples: &mut [Duration]) -> String {
    format!("{} / {}", time(percentile(samples, 0.5)), time(percentile(samples, 0.99)))
}

/// A rate with separators.
pub(crate) fn rate(count: usize, duration: Duration) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    let per_second = (count as f64 / duration.as_secs_f64()) as u64;
    let digits = per_second.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    format!("{text}/s")
}
