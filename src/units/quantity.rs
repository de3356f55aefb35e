//! Numbers as people write them: `450ms`, `25MiB`, `10Gbps`.

use super::{GIB, MIB};

/// What a key is measured in. A plain number is taken in this unit; a number
/// with a unit of the same kind is converted to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Mebibytes.
    Mebibytes,
    /// Gibibytes.
    Gibibytes,
    /// Network rate in Gbit/s.
    Gbps,
    /// Memory or bus rate in GB/s.
    GigabytesPerSecond,
    /// Clock in GHz.
    Gigahertz,
    /// Arithmetic rate in TFLOP/s.
    Teraflops,
    /// A bare number; no unit may follow.
    None,
}

/// A suffix and how many base units one of it is.
type Suffix = (&'static str, f64);

const TIMES: &[Suffix] = &[
    ("ns", 1e-9),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("sec", 1.0),
    ("min", 60.0),
    ("m", 60.0),
    ("h", 3600.0),
];
const SIZES: &[Suffix] = &[
    ("B", 1.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1024.0),
    ("MiB", MIB),
    ("GiB", GIB),
    ("TiB", 1024.0 * GIB),
    ("Ki", 1024.0),
    ("Mi", MIB),
    ("Gi", GIB),
];
const BIT_RATES: &[Suffix] = &[
    ("kbps", 1e3),
    ("Kbps", 1e3),
    ("Mbps", 1e6),
    ("Gbps", 1e9),
    ("Tbps", 1e12),
    ("kbit/s", 1e3),
    ("Mbit/s", 1e6),
    ("Gbit/s", 1e9),
    ("Tbit/s", 1e12),
    ("Mb/s", 1e6),
    ("Gb/s", 1e9),
    ("Gbit", 1e9),
    ("Mbit", 1e6),
    ("GbE", 1e9),
    ("MB/s", 8e6),
    ("GB/s", 8e9),
    ("MiB/s", 8.0 * MIB),
    ("GiB/s", 8.0 * GIB),
];
const BYTE_RATES: &[Suffix] = &[
    ("MB/s", 1e6),
    ("GB/s", 1e9),
    ("TB/s", 1e12),
    ("MiB/s", MIB),
    ("GiB/s", GIB),
];
const CLOCKS: &[Suffix] = &[("Hz", 1.0), ("kHz", 1e3), ("MHz", 1e6), ("GHz", 1e9)];
const ARITHMETIC: &[Suffix] = &[
    ("GFLOPS", 1e9),
    ("GFLOP/s", 1e9),
    ("TFLOPS", 1e12),
    ("TFLOP/s", 1e12),
    ("PFLOPS", 1e15),
    ("PFLOP/s", 1e15),
];

impl Unit {
    /// The suffixes of this kind, and how many base units one of `self` is.
    const fn table(self) -> (&'static [Suffix], f64) {
        match self {
            Self::Seconds => (TIMES, 1.0),
            Self::Milliseconds => (TIMES, 1e-3),
            Self::Mebibytes => (SIZES, MIB),
            Self::Gibibytes => (SIZES, GIB),
            Self::Gbps => (BIT_RATES, 1e9),
            Self::GigabytesPerSecond => (BYTE_RATES, 1e9),
            Self::Gigahertz => (CLOCKS, 1e9),
            Self::Teraflops => (ARITHMETIC, 1e12),
            Self::None => (&[], 1.0),
        }
    }

    /// Values that something real could have, in this unit; zero apart.
    pub const fn plausible(self) -> std::ops::RangeInclusive<f64> {
        match self {
            Self::Seconds | Self::Milliseconds => 1e-9..=1e9,
            Self::Mebibytes => 1e-3..=1e9,
            Self::Gibibytes | Self::GigabytesPerSecond => 1e-3..=1e6,
            Self::Gbps => 1e-3..=1e5,
            Self::Gigahertz => 1e-2..=20.0,
            Self::Teraflops => 1e-4..=1e6,
            Self::None => 1e-12..=1e21,
        }
    }

    /// What would be right, for an error message.
    pub const fn expected(self) -> &'static str {
        match self {
            Self::Seconds => "a time in seconds, or with a unit (450ms, 2s, 3min)",
            Self::Milliseconds => "a time in milliseconds, or with a unit (5ms, 200us)",
            Self::Mebibytes => "a size in MiB, or with a unit (25MiB, 64MB)",
            Self::Gibibytes => "a size in GiB, or with a unit (80GiB)",
            Self::Gbps => "a rate in Gbit/s, or with a unit (10, 10Gbps, 1250MB/s)",
            Self::GigabytesPerSecond => "a rate in GB/s, or with a unit (900GB/s)",
            Self::Gigahertz => "a clock in GHz, or with a unit (2.2, 2200MHz)",
            Self::Teraflops => "a rate in TFLOP/s, or with a unit (67, 67TFLOPS)",
            Self::None => "a number",
        }
    }
}

/// Reads `text` as a quantity measured in `unit`; the result is in `unit`.
/// `None` when it is no number, or carries a unit of another kind.
pub fn parse_quantity(text: &str, unit: Unit) -> Option<f64> {
    let text = text.trim();
    let split = number_length(text);
    let number: f64 = text[..split].replace('_', "").parse().ok()?;
    let suffix = text[split..].trim();
    if suffix.is_empty() {
        return Some(number);
    }
    let (table, base) = unit.table();
    let exact = table.iter().find(|(name, _)| *name == suffix);
    let (_, scale) = exact.or_else(|| unambiguous(table, suffix))?;
    Some(number * scale / base)
}

/// A suffix in another case, if it can mean only one thing: `gbps` is fine
/// for a rate, `mb` against `MB` and `Mb` is not.
fn unambiguous<'a>(table: &'a [Suffix], suffix: &str) -> Option<&'a Suffix> {
    let mut hits = table
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case(suffix));
    let first = hits.next()?;
    hits.all(|hit| hit.1 == first.1).then_some(first)
}

/// How many bytes of `text` belong to the number in front.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut end = 0;
    while end < bytes.len() {
        let exponent = matches!(bytes[end], b'e' | b'E')
            && end > 0
            && bytes
                .get(end + 1)
                .is_some_and(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-'));
        let sign = matches!(bytes[end], b'+' | b'-')
            && (end == 0 || matches!(bytes[end - 1], b'e' | b'E'));
        if exponent || sign || bytes[end].is_ascii_digit() || matches!(bytes[end], b'.' | b'_') {
            end += 1;
        } else {
            break;
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_numbers_are_in_the_units_of_their_key() {
        assert_eq!(parse_quantity("10", Unit::Gbps), Some(10.0));
        assert_eq!(parse_quantity("2.5e1", Unit::Mebibytes), Some(25.0));
        assert_eq!(parse_quantity("1_000", Unit::None), Some(1000.0));
    }

    #[test]
    fn units_of_the_same_kind_are_converted() {
        assert_eq!(parse_quantity("10Gbps", Unit::Gbps), Some(10.0));
        assert_eq!(parse_quantity("25000 Mbit/s", Unit::Gbps), Some(25.0));
        assert_eq!(parse_quantity("1.25 GB/s", Unit::Gbps), Some(10.0));
        assert_eq!(parse_quantity("450ms", Unit::Seconds), Some(0.45));
        assert_eq!(parse_quantity("25MiB", Unit::Mebibytes), Some(25.0));
        assert_eq!(parse_quantity("2200MHz", Unit::Gigahertz), Some(2.2));
        assert_eq!(parse_quantity("10gbps", Unit::Gbps), Some(10.0));
    }

    #[test]
    fn units_of_another_kind_and_ambiguous_ones_are_refused() {
        assert_eq!(parse_quantity("10GiB", Unit::Gbps), None);
        assert_eq!(parse_quantity("fast", Unit::Gbps), None);
        assert_eq!(parse_quantity("10mb/s", Unit::Gbps), None);
        assert_eq!(parse_quantity("3s", Unit::None), None);
        assert_eq!(parse_quantity("", Unit::Seconds), None);
    }
}
