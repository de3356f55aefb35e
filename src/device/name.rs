//! Names of devices, tolerantly: labels, clouds and people spell them apart.

/// Words that only say who made it.
const VENDOR_WORDS: [&str; 6] = ["nvidia", "tesla", "amd", "instinct", "geforce", "intel"];

/// Words of processor names that tell nothing apart.
const CPU_WORDS: [&str; 4] = ["r", "cpu", "processor", "tm"];

/// A name reduced to what tells devices apart.
pub(super) fn fold(name: &str) -> String {
    let lower = name.to_lowercase();
    let lower = lower.split(" @ ").next().unwrap_or_default();
    lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !VENDOR_WORDS.contains(word) && !CPU_WORDS.contains(word))
        .collect()
}

/// Whether two spellings mean the same device.
pub fn same_name(a: &str, b: &str) -> bool {
    fold(a) == fold(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_device_fold_together() {
        assert!(same_name("Tesla-T4", "t4"));
        assert!(same_name("NVIDIA-RTX-2080Ti", "NVIDIA GeForce RTX 2080 Ti"));
        assert!(!same_name("Quadro RTX 4000", "RTX 4000 Ada"));
    }
}
