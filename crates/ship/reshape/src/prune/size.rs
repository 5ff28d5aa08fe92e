//! The size that a pruned file would have, without writing it.

/// The sizes of a file that would change, in a dry run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SizeForecast {
    /// Size of the new file in bytes.
    pub(super) size: u64,
    /// `true` if the size is estimated.
    pub(super) is_estimate: bool,
    /// Its current GPU code.
    pub(super) before: Amount,
    /// Its new GPU code.
    pub(super) after: Amount,
}

/// Size of GPU code in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) bytes: u64,
    /// `true` if the code is compressed, so that a wheel cannot compress it again.
    pub(super) is_packed: bool,
}

impl SizeForecast {
    /// Estimates the compressed size in bytes of a member of a wheel that now has `size` bytes and
    /// takes `compressed`. The ratio of the bytes that are not compressed by themselves is assumed
    /// to stay the same.
    pub(super) fn packed(&self, size: u64, compressed: u64) -> u64 {
        let already = if self.before.is_packed { self.before.bytes.min(compressed) } else { 0 };
        let [was, is] = [(size, self.before), (self.size, self.after)]
            .map(|(file, code)| if code.is_packed { file.saturating_sub(code.bytes) } else { file });
        let ratio = u128::from(compressed - already);
        let packed = (u128::from(is) * ratio).checked_div(u128::from(was)).unwrap_or(0);
        let code = if self.after.is_packed { self.after.bytes } else { 0 };
        u64::try_from(packed).unwrap_or(u64::MAX).saturating_add(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_sizes_follow_from_how_the_member_packs_now() {
        let forecast = |size, before: (u64, bool), after: (u64, bool)| {
            let [before, after] = [before, after].map(|(bytes, is_packed)| Amount { bytes, is_packed });
            SizeForecast { size, is_estimate: false, before, after }
        };
        // 1000 bytes are compressed to 400; 600 of them are plain code, of which 100 are kept.
        assert_eq!(forecast(500, (600, false), (100, false)).packed(1000, 400), 200);
        // Compressed code keeps its size: 200 of 1000 bytes are compressed code, the other 800 take
        // 300.
        assert_eq!(forecast(850, (200, true), (50, true)).packed(1000, 500), 350);
        // Plain code becomes compressed.
        assert_eq!(forecast(450, (600, false), (50, true)).packed(1000, 400), 210);
        // An archive alone, stored.
        assert_eq!(forecast(60, (100, true), (60, true)).packed(100, 100), 60);
        assert_eq!(forecast(0, (0, false), (0, false)).packed(0, 0), 0);
    }
}
