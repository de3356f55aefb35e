//! Quantities with their units in the type. Bytes, bits, Gbit and GiB meet
//! here and nowhere else; arithmetic exists only where it means something.

mod quantity;

pub use quantity::{Unit, parse_quantity};

use serde::{Deserialize, Serialize};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

/// Bytes in one mebibyte.
const MIB: f64 = 1024.0 * 1024.0;
/// Bytes in one gibibyte.
const GIB: f64 = 1024.0 * MIB;

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(f64);

        impl $name {
            /// Nothing of it.
            pub const ZERO: Self = Self(0.0);

            /// The value in the base unit.
            pub const fn new(value: f64) -> Self {
                Self(value)
            }

            /// The value in the base unit.
            pub const fn get(self) -> f64 {
                self.0
            }

            /// The larger of two.
            #[must_use]
            pub const fn max(self, other: Self) -> Self {
                Self(self.0.max(other.0))
            }

            /// The smaller of two.
            #[must_use]
            pub const fn min(self, other: Self) -> Self {
                Self(self.0.min(other.0))
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }

        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl Mul<f64> for $name {
            type Output = Self;
            fn mul(self, factor: f64) -> Self {
                Self(self.0 * factor)
            }
        }

        impl Div<f64> for $name {
            type Output = Self;
            fn div(self, divisor: f64) -> Self {
                Self(self.0 / divisor)
            }
        }

        impl Div for $name {
            type Output = f64;
            fn div(self, other: Self) -> f64 {
                self.0 / other.0
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                Self(iter.map(|q| q.0).sum())
            }
        }
    };
}

quantity!(
    /// A duration.
    Seconds
);
quantity!(
    /// An amount of data.
    Bytes
);
quantity!(
    /// A data rate.
    BytesPerSecond
);
quantity!(
    /// A number of floating-point operations; a multiply–add counts as two.
    Flops
);
quantity!(
    /// An arithmetic rate.
    FlopsPerSecond
);

impl Seconds {
    /// From milliseconds.
    pub const fn from_millis(ms: f64) -> Self {
        Self(ms / 1e3)
    }

    /// In hours.
    pub const fn hours(self) -> f64 {
        self.0 / 3600.0
    }
}

impl Bytes {
    /// From mebibytes.
    pub const fn from_mib(mib: f64) -> Self {
        Self(mib * MIB)
    }

    /// From gibibytes.
    pub const fn from_gib(gib: f64) -> Self {
        Self(gib * GIB)
    }

    /// In mebibytes.
    pub const fn mib(self) -> f64 {
        self.0 / MIB
    }

    /// In gibibytes.
    pub const fn gib(self) -> f64 {
        self.0 / GIB
    }
}

impl BytesPerSecond {
    /// From a network rate in Gbit/s (decimal bits, as NICs are sold).
    pub const fn from_gbit(gbit: f64) -> Self {
        Self(gbit * 1e9 / 8.0)
    }

    /// From a memory or bus rate in GB/s (decimal bytes, as data sheets print).
    pub const fn from_gigabytes(gb: f64) -> Self {
        Self(gb * 1e9)
    }

    /// In Gbit/s.
    pub const fn gbit(self) -> f64 {
        self.0 * 8.0 / 1e9
    }
}

impl FlopsPerSecond {
    /// From TFLOP/s.
    pub const fn from_tera(tera: f64) -> Self {
        Self(tera * 1e12)
    }
}

impl Div<BytesPerSecond> for Bytes {
    type Output = Seconds;
    fn div(self, rate: BytesPerSecond) -> Seconds {
        Seconds(self.0 / rate.0)
    }
}

impl Div<Seconds> for Bytes {
    type Output = BytesPerSecond;
    fn div(self, time: Seconds) -> BytesPerSecond {
        BytesPerSecond(self.0 / time.0)
    }
}

impl Div<FlopsPerSecond> for Flops {
    type Output = Seconds;
    fn div(self, rate: FlopsPerSecond) -> Seconds {
        Seconds(self.0 / rate.0)
    }
}

impl Div<Seconds> for Flops {
    type Output = FlopsPerSecond;
    fn div(self, time: Seconds) -> FlopsPerSecond {
        FlopsPerSecond(self.0 / time.0)
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = self.0;
        match s.abs() {
            0.0 => write!(f, "0 s"),
            a if a < 1e-3 => write!(f, "{:.1} µs", s * 1e6),
            a if a < 1.0 => write!(f, "{:.2} ms", s * 1e3),
            a if a < 120.0 => write!(f, "{s:.3} s"),
            a if a < 7200.0 => write!(f, "{:.1} min", s / 60.0),
            a if a < 172_800.0 => write!(f, "{:.1} h", s / 3600.0),
            _ => write!(f, "{:.1} days", s / 86_400.0),
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.abs() {
            b if b < 1024.0 => write!(f, "{:.0} B", self.0),
            b if b < MIB => write!(f, "{:.1} KiB", self.0 / 1024.0),
            b if b < GIB => write!(f, "{:.1} MiB", self.mib()),
            _ => write!(f, "{:.1} GiB", self.gib()),
        }
    }
}

impl fmt::Display for BytesPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.4} Gb/s", Trimmed(self.gbit()))
    }
}

/// Prints a number without trailing zeros.
struct Trimmed(f64);

impl fmt::Display for Trimmed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:.*}", f.precision().unwrap_or(3), self.0);
        let text = if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.')
        } else {
            &text
        };
        f.write_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gigabyte_over_ten_gigabit_takes_eight_tenths_of_a_second() {
        let time = Bytes::new(1e9) / BytesPerSecond::from_gbit(10.0);
        assert!((time.get() - 0.8).abs() < 1e-12);
    }

    #[test]
    fn binary_and_decimal_units_stay_apart() {
        assert_eq!(Bytes::from_mib(1.0).get(), 1_048_576.0);
        assert_eq!(BytesPerSecond::from_gigabytes(1.0).gbit(), 8.0);
    }

    #[test]
    fn durations_print_in_the_unit_a_reader_expects() {
        assert_eq!(Seconds::new(0.000_25).to_string(), "250.0 µs");
        assert_eq!(Seconds::new(0.45).to_string(), "450.00 ms");
        assert_eq!(Seconds::new(3.0).to_string(), "3.000 s");
        assert_eq!(Seconds::new(86_400.0).to_string(), "24.0 h");
    }
}
