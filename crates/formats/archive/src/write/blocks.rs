//! Input: a complete deflate stream (RFC 1951). Output: the positions of the header bit of its last
//! block and of the end of the stream, in bits.
//!
//! Every call of the compressor ends its stream: the last block has BFINAL set. To join streams
//! that bit must be cleared, and it can be anywhere in the last part of the bytes. [`last_block`]
//! walks all blocks, following the Huffman codes without producing a byte. It takes 12 to 18 % of
//! the time that libdeflate's level 5 takes; an inflater takes 20 to 25 %. [`find_last_block`]
//! instead searches from the end, which takes almost no time, and verifies its result with the
//! input.

/// Bit positions in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastBlock {
    /// The BFINAL bit of the last block.
    pub(crate) header: usize,
    /// The first bit after the stream.
    pub(crate) end: usize,
}

/// Walks the blocks of `stream`. `None` if it is not a complete deflate stream.
pub(crate) fn last_block(stream: &[u8]) -> Option<LastBlock> {
    let mut bits = Bits { stream, position: 0 };
    let mut tables = Tables::default();
    loop {
        let header = bits.position;
        let is_last = bits.take(1) == 1;
        match bits.take(2) {
            0 => bits.skip_stored()?,
            1 => {
                tables.build(&Codes::fixed())?;
                tables.skip(&mut bits)?;
            }
            2 => {
                tables.build(&Codes::read(&mut bits)?)?;
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

/// The largest last block that is searched for, in bytes of the stream. libdeflate's blocks contain
/// about 300 kB of input.
const REACH: usize = 320 << 10;
/// Requirements for a certain match: literals that agree with the input, and different values among
/// them.
const LITERALS: usize = 64;
const DIFFERENT: usize = 16;

/// Finds the last block of `stream` by searching from the end; `stream` is `input` compressed.
///
/// A position is accepted as the header if three complete codes follow it, and if the symbols up to
/// the very end of the stream decode to the end of `input`, with [`LITERALS`] literals of
/// [`DIFFERENT`] values among them. Bits that are not a header decode to unrelated symbols. Each
/// literal then agrees with a probability of at most one half, so a wrong position is accepted with
/// a probability below 2^-64. `None` means that the search failed; then use [`last_block`].
pub(crate) fn find_last_block(stream: &[u8], input: &[u8]) -> Option<LastBlock> {
    let mut tables = Tables::default();
    let end = stream.len() * 8;
    for header in (end.saturating_sub(REACH * 8)..end).rev() {
        let mut bits = Bits { stream, position: header };
        if !may_be_header(bits) {
            continue;
        }
        bits.position += 3;
        let Some(codes) = Codes::read(&mut bits).filter(Codes::are_complete) else { continue };
        let begin = bits.position;
        if tables.build(&codes).is_none() || tables.skip(&mut bits).is_none() {
            continue;
        }
        // Fewer than eight bits, all zero, may follow.
        if bits.position + 8 <= end || bits.position > end {
            continue;
        }
        let found = LastBlock { header, end: bits.position };
        bits.position = begin;
        if agrees(&bits, &codes, input) == Some(true) {
            return Some(found);
        }
    }
    None
}

/// `true` if the header of a last block with dynamic codes may begin here: the counts are in range
/// and the code length code is complete. About one position in a thousand passes.
#[inline]
fn may_be_header(bits: Bits<'_>) -> bool {
    // The share, in units of 1/128, that a code of each length takes of the code space.
    const SHARE: [u8; 8] = [0, 64, 32, 16, 8, 4, 2, 1];
    let word = bits.peek();
    // BFINAL, and BTYPE 2, whose lower bit comes first; then the counts of both codes.
    if word & 7 != 0b101 || word >> 3 & 31 > 29 || word >> 8 & 31 > 29 {
        return false;
    }
    let count = (word >> 13 & 15) + 4;
    // At most 57 bits, which `peek` can return.
    let mut lengths = Bits { position: bits.position + 17, ..bits }.peek() & ((1 << (3 * count)) - 1);
    let mut taken = 0_u32;
    while lengths > 0 {
        taken += u32::from(SHARE[(lengths & 7) as usize]);
        lengths >>= 3;
    }
    taken == 128
}

/// `true` if the block whose symbols begin at `bits` decodes to the end of `input`.
fn agrees(bits: &Bits<'_>, codes: &Codes, input: &[u8]) -> Option<bool> {
    let mut length = 0;
    decode(*bits, codes, |token| {
        length += match token {
            Token::Literal(_) => 1,
            Token::Match { length, .. } => length,
        };
        true
    })?;
    let mut position = input.len().checked_sub(length)?;
    let mut literals = 0;
    let mut seen = [false; 256];
    let agrees = decode(*bits, codes, |token| match token {
        Token::Literal(byte) => {
            literals += 1;
            seen[usize::from(byte)] = true;
            position += 1;
            input[position - 1] == byte
        }
        Token::Match { length, distance } => {
            let begin = position;
            position += length;
            distance <= begin && input[begin - distance..position - distance] == input[begin..position]
        }
    })?;
    let different = seen.iter().filter(|seen| **seen).count();
    Some(agrees && literals >= LITERALS && different >= DIFFERENT)
}

enum Token {
    Literal(u8),
    Match { length: usize, distance: usize },
}

/// Passes the tokens of a block to `each` until it returns `false`. The result is `true` if it
/// never did; `None` if a code does not exist.
fn decode(mut bits: Bits<'_>, codes: &Codes, mut each: impl FnMut(Token) -> bool) -> Option<bool> {
    let (mut literals, mut distances) = (vec![0_u16; 1 << LITERAL_BITS], vec![0_u16; 1 << DISTANCE_BITS]);
    let literal_bits = fill(&mut literals, codes.literals(), |symbol, length| Some(entry(symbol, length)))?;
    let distance_bits = fill(&mut distances, codes.distances(), |symbol, length| Some(entry(symbol, length)))?;
    while bits.position < bits.stream.len() * 8 {
        let token = match bits.symbol(&literals, literal_bits)? {
            256 => return Some(true),
            literal @ 0..256 => Token::Literal(literal as u8),
            code => {
                let extra = usize::from(*LENGTH_EXTRA.get(code - 257)?);
                let length = usize::from(LENGTH_BASE[code - 257]) + bits.take(extra);
                let code = bits.symbol(&distances, distance_bits)?;
                let extra = usize::from(*DISTANCE_EXTRA.get(code)?);
                // From code 4 on, there are two codes for each number of extra bits.
                let base = if code < 4 { code } else { (2 + code % 2) << extra };
                Token::Match { length, distance: base + 1 + bits.take(extra) }
            }
        };
        if !each(token) {
            return Some(false);
        }
    }
    None
}

/// An entry contains the symbol, and in its low bits the length of the code.
fn entry(symbol: usize, length: u8) -> u16 {
    (symbol as u16) << 4 | u16::from(length)
}

#[derive(Clone, Copy)]
struct Bits<'a> {
    stream: &'a [u8],
    position: usize,
}

impl Bits<'_> {
    /// At least 56 bits from the position on, the first one in the lowest bit; zeros after the end.
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

    #[inline]
    fn symbol(&mut self, table: &[u16], width: usize) -> Option<usize> {
        let entry = table[self.peek() as usize & ((1 << width) - 1)];
        self.position += usize::from(entry & 15);
        (entry > 0).then_some(usize::from(entry >> 4))
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
/// The smallest length of each length code.
const LENGTH_BASE: [u16; 29] =
    [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258];
const DISTANCE_EXTRA: [u8; 30] =
    [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13];
/// The order in which a header lists the lengths of the code length code.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// The lengths of the two codes of a block: literals and lengths, then distances.
struct Codes {
    lengths: [u8; 288 + 32],
    split: usize,
    end: usize,
}

impl Codes {
    fn literals(&self) -> &[u8] {
        &self.lengths[..self.split]
    }

    fn distances(&self) -> &[u8] {
        &self.lengths[self.split..self.end]
    }

    fn fixed() -> Codes {
        let mut lengths = [8; 288 + 32];
        lengths[144..256].fill(9);
        lengths[256..280].fill(7);
        lengths[288..].fill(5);
        Codes { lengths, split: 288, end: 320 }
    }

    /// Reads the codes of a dynamic block; BTYPE has been read.
    fn read(bits: &mut Bits<'_>) -> Option<Codes> {
        let split = bits.take(5) + 257;
        let end = split + bits.take(5) + 1;
        let count = bits.take(4) + 4;
        let mut lengths = [0; 19];
        for place in &ORDER[..count] {
            lengths[*place] = bits.take(3) as u8;
        }
        // An entry contains the symbol, and in its low bits the length of the code.
        let mut table = [0_u8; 128];
        let width = fill(&mut table, &lengths, |symbol, length| Some((symbol << 3) as u8 | length))?;
        let mut lengths = [0; 288 + 32];
        let mut filled = 0;
        while filled < end {
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
        (filled == end).then_some(Codes { lengths, split, end })
    }

    /// `true` if neither code leaves a bit pattern unused. The compressor's never do.
    fn are_complete(&self) -> bool {
        [self.literals(), self.distances()].iter().all(|lengths| {
            let used = lengths.iter().filter(|length| **length > 0);
            used.map(|length| 1 << 15 >> u32::from(*length)).sum::<u32>() == 1 << 15
        })
    }
}

/// Marks of a table entry, and the mask of its number of bits.
const LITERAL: u8 = 0x40;
const END_OF_BLOCK: u8 = 0x80;
const COUNT: u8 = 0x3f;

/// Tables indexed by the next bits of the stream. An entry is the number of bits of the symbol
/// including its extra bits, or 0 for a code that does not exist, combined with the marks above.
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
    fn build(&mut self, codes: &Codes) -> Option<()> {
        self.literal_bits = fill(&mut self.literals, codes.literals(), |symbol, length| match symbol {
            0..256 => Some(length | LITERAL),
            256 => Some(length | END_OF_BLOCK),
            _ => LENGTH_EXTRA.get(symbol - 257).map(|extra| length + extra),
        })?;
        self.distance_bits = fill(&mut self.distances, codes.distances(), |symbol, length| {
            DISTANCE_EXTRA.get(symbol).map(|extra| length + extra)
        })?;
        Some(())
    }

    /// Moves `bits` to the end of the block.
    fn skip(&self, bits: &mut Bits<'_>) -> Option<()> {
        let end = bits.stream.len() * 8;
        let (literal_mask, distance_mask) = ((1 << self.literal_bits) - 1, (1 << self.distance_bits) - 1);
        let (literals, distances) = (&self.literals[..=literal_mask], &self.distances[..=distance_mask]);
        while bits.position < end {
            // 56 bits are enough for three literals of 15 bits, or for a length (20) and a distance
            // (28).
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

/// Fills `table` for the canonical code with these lengths and returns the number of bits that
/// index it. `entry` makes the entry of a symbol from the symbol and the length of its code; it
/// returns `None` for a symbol that must not occur. `None` if the lengths are not a code.
fn fill<T: Copy + Default>(table: &mut [T], lengths: &[u8], entry: impl Fn(usize, u8) -> Option<T>) -> Option<usize> {
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
    table.fill(T::default());
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
