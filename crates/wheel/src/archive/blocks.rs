//! Input: a complete deflate stream (RFC 1951). Output: where the header bit of its last block is, and where the
//! stream ends, in bits.
//!
//! Every call of the compressor ends its stream: the last block has BFINAL set. To join streams that bit must be
//! cleared, and it lies anywhere in the last third of the bytes or so, so the blocks have to be walked. This walk only
//! counts bits: it follows Huffman codes without producing a byte, and needs a third of the time of an inflater.

/// Bit positions in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastBlock {
    /// The BFINAL bit of the last block.
    pub(crate) header: usize,
    /// The first bit after the stream.
    pub(crate) end: usize,
}

/// Walks the blocks of `stream`. `None` when it is no complete deflate stream.
pub(crate) fn last_block(stream: &[u8]) -> Option<LastBlock> {
    let mut bits = Bits { stream, position: 0 };
    let mut tables = Tables::default();
    loop {
        let header = bits.position;
        let is_last = bits.take(1) == 1;
        match bits.take(2) {
            0 => bits.skip_stored()?,
            1 => {
                tables.fixed();
                tables.skip(&mut bits)?;
            }
            2 => {
                tables.dynamic(&mut bits)?;
                tables.skip(&mut bits)?;
            }
            _ => return None,
        }
        if bits.position > stream.len() * 8 {
            return None;
        }
        if is_last {
            return Some(LastBlock { header, end: bits.position });
        }
    }
}

struct Bits<'a> {
    stream: &'a [u8],
    position: usize,
}

impl Bits<'_> {
    /// At least 56 bits from the position on, the first one lowest; zeros after the end.
    #[inline]
    fn peek(&self) -> u64 {
        let byte = self.position / 8;
        let word = match self.stream.get(byte..byte + 8) {
            Some(bytes) => u64::from_le_bytes(bytes.try_into().unwrap_or_default()),
            None => self.peek_end(byte),
        };
        word >> (self.position % 8)
    }

    #[cold]
    fn peek_end(&self, byte: usize) -> u64 {
        let mut bytes = [0; 8];
        if let Some(rest) = self.stream.get(byte..) {
            bytes[..rest.len()].copy_from_slice(rest);
        }
        u64::from_le_bytes(bytes)
    }

    #[inline]
    fn take(&mut self, count: usize) -> usize {
        let value = self.peek() & ((1 << count) - 1);
        self.position += count;
        value as usize
    }

    fn skip_stored(&mut self) -> Option<()> {
        let byte = self.position.div_ceil(8);
        let length = self.stream.get(byte..byte + 4)?;
        let (length, check) = ([length[0], length[1]], [length[2], length[3]]);
        let length = u16::from_le_bytes(length);
        if length != !u16::from_le_bytes(check) {
            return None;
        }
        self.position = (byte + 4 + usize::from(length)) * 8;
        Some(())
    }
}

const LITERAL_BITS: usize = 15;
const DISTANCE_BITS: usize = 15;
/// Extra bits of the length codes 257 to 285 and of the distance codes 0 to 29.
const LENGTH_EXTRA: [u8; 29] = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
const DISTANCE_EXTRA: [u8; 30] =
    [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13];
/// The order in which a header gives the lengths of the code length code.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// What follows a literal or length symbol.
const LITERAL: u8 = 0x40;
const END_OF_BLOCK: u8 = 0x80;
const COUNT: u8 = 0x3f;

/// Tables indexed by the next bits of the stream. An entry is the number of bits that the symbol with its extra bits
/// takes, 0 for a code that does not exist, with the marks above.
struct Tables {
    literals: Vec<u8>,
    literal_bits: usize,
    distances: Vec<u8>,
    distance_bits: usize,
}

impl Default for Tables {
    fn default() -> Tables {
        Tables {
            literals: vec![0; 1 << LITERAL_BITS],
            literal_bits: LITERAL_BITS,
            distances: vec![0; 1 << DISTANCE_BITS],
            distance_bits: DISTANCE_BITS,
        }
    }
}

impl Tables {
    fn build(&mut self, literals: &[u8], distances: &[u8]) -> Option<()> {
        self.literal_bits = fill(&mut self.literals, literals, |symbol, length| match symbol {
            0..256 => Some(length | LITERAL),
            256 => Some(length | END_OF_BLOCK),
            _ => LENGTH_EXTRA.get(symbol - 257).map(|extra| length + extra),
        })?;
        self.distance_bits = fill(&mut self.distances, distances, |symbol, length| {
            DISTANCE_EXTRA.get(symbol).map(|extra| length + extra)
        })?;
        Some(())
    }

    fn fixed(&mut self) {
        let mut lengths = [8; 288];
        lengths[144..256].fill(9);
        lengths[256..280].fill(7);
        // These lengths are a complete code.
        let _ = self.build(&lengths, &[5; 32]);
    }

    fn dynamic(&mut self, bits: &mut Bits<'_>) -> Option<()> {
        let literals = bits.take(5) + 257;
        let distances = bits.take(5) + 1;
        let count = bits.take(4) + 4;
        let mut lengths = [0; 19];
        for place in &ORDER[..count] {
            lengths[*place] = bits.take(3) as u8;
        }
        // An entry holds the symbol above the bits of its code.
        let mut table = [0; 128];
        let width = fill(&mut table, &lengths, |symbol, length| Some((symbol << 3) as u8 | length))?;
        let mut lengths = [0; 288 + 32];
        let mut filled = 0;
        while filled < literals + distances {
            let entry = table[bits.peek() as usize & ((1 << width) - 1)];
            if entry == 0 || bits.position > bits.stream.len() * 8 {
                return None;
            }
            bits.position += usize::from(entry & 7);
            let (value, times) = match entry >> 3 {
                16 => (*lengths[..filled].last()?, bits.take(2) + 3),
                17 => (0, bits.take(3) + 3),
                18 => (0, bits.take(7) + 11),
                length => (length, 1),
            };
            lengths.get_mut(filled..filled + times)?.fill(value);
            filled += times;
        }
        let (literal_lengths, rest) = lengths.split_at(literals);
        (filled == literals + distances).then_some(())?;
        self.build(literal_lengths, &rest[..distances])
    }

    /// Moves `bits` behind the end of the block.
    fn skip(&self, bits: &mut Bits<'_>) -> Option<()> {
        let end = bits.stream.len() * 8;
        let (literal_mask, distance_mask) = ((1 << self.literal_bits) - 1, (1 << self.distance_bits) - 1);
        let (literals, distances) = (&self.literals[..=literal_mask], &self.distances[..=distance_mask]);
        while bits.position < end {
            // 56 bits hold three literals of 15 bits, or a length (20) and a distance (28).
            let mut word = bits.peek();
            let mut entry = literals[word as usize & literal_mask];
            for _ in 0..2 {
                if entry & LITERAL == 0 {
                    break;
                }
                let count = entry & COUNT;
                word >>= count;
                bits.position += usize::from(count);
                entry = literals[word as usize & literal_mask];
            }
            let count = entry & COUNT;
            if count == 0 {
                return None;
            }
            bits.position += usize::from(count);
            if entry & (LITERAL | END_OF_BLOCK) == 0 {
                let distance = distances[bits.peek() as usize & distance_mask];
                if distance == 0 {
                    return None;
                }
                bits.position += usize::from(distance);
            } else if entry & END_OF_BLOCK != 0 {
                return Some(());
            }
        }
        None
    }
}

/// Fills `table` for the canonical code with these lengths and gives the number of bits that index it. `entry` makes
/// the entry of a symbol and its length, `None` for a symbol that must not occur. `None` when the lengths are no code.
fn fill(table: &mut [u8], lengths: &[u8], entry: impl Fn(usize, u8) -> Option<u8>) -> Option<usize> {
    let mut counts = [0_u32; 16];
    for length in lengths {
        counts[usize::from(*length)] += 1;
    }
    counts[0] = 0;
    let width = (1..16).rev().find(|length| counts[*length] > 0).unwrap_or(1);
    let mut next = [0_u32; 16];
    let mut code = 0;
    for length in 1..=width {
        code = (code + counts[length - 1]) << 1;
        next[length] = code;
        if code + counts[length] > 1 << length {
            return None;
        }
    }
    let table = table.get_mut(..1 << width)?;
    table.fill(0);
    for (symbol, length) in lengths.iter().enumerate().filter(|(_, length)| **length > 0) {
        let code = next[usize::from(*length)];
        next[usize::from(*length)] += 1;
        let Some(value) = entry(symbol, *length) else { continue };
        let reversed = (code.reverse_bits() >> (32 - u32::from(*length))) as usize;
        for slot in table[reversed..].iter_mut().step_by(1 << length) {
            *slot = value;
        }
    }
    Some(width)
}
