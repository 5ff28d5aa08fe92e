//! Input: words and their replacements. Output: a text in which every word is replaced by the rules
//! of the original.

use std::collections::BTreeMap;

use crate::Defects;
use crate::word::{gap_after, gap_before};

const NONE: u32 = u32::MAX;

/// The characters that may be next to a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Boundaries {
    /// A character on each side that is not a word character.
    Required,
    /// Any character, or none.
    Free,
}

/// Words with their replacements, as a trie over bytes.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    nodes: Vec<Node>,
    /// The children of all nodes; those of one node are contiguous and sorted.
    edges: Vec<(u8, u32)>,
    entries: Vec<Entry>,
    /// A bit for each possible beginning of a word. It rules out most positions without a search in
    /// the trie.
    begins: Box<[u64; BEGINS]>,
    /// Number of bytes at the beginning of a word that [`begin`] hashes: four, or fewer if a word
    /// is shorter.
    length: usize,
    /// Bytes that begin a word and are not word characters.
    others: Vec<u8>,
}

/// Size of the table of beginnings, in units of 64 bits.
const BEGINS: usize = 1024;
/// Number of bytes that are classified together.
const PAGE: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Node {
    begin: u32,
    end: u32,
    entry: u32,
}

#[derive(Debug, Clone)]
struct Entry {
    word: String,
    value: String,
    /// The offsets of the word within its own value.
    inside: Vec<usize>,
}

/// The number of replacements of each word.
pub(crate) type Counts = BTreeMap<String, u64>;

impl Keys {
    pub(crate) fn new(map: &BTreeMap<String, String>) -> Self {
        let entries: Vec<Entry> = map
            .iter()
            .filter(|(word, _)| !word.is_empty())
            .map(|(word, value)| {
                let inside = value.match_indices(word.as_str()).map(|(at, _)| at).collect();
                Entry { word: word.clone(), value: value.clone(), inside }
            })
            .collect();
        let length = entries.iter().map(|entry| entry.word.len()).min().unwrap_or(1).min(4);
        let mut others: Vec<u8> =
            entries.iter().map(|entry| entry.word.as_bytes()[0]).filter(|byte| !is_word(*byte)).collect();
        others.sort_unstable();
        others.dedup();
        let begins = Box::new([0; BEGINS]);
        let mut keys = Self { nodes: Vec::new(), edges: Vec::new(), entries, begins, length, others };
        let all = keys.entries.len();
        keys.node(0, all, 0);
        for entry in &keys.entries {
            let (place, bit) = begin(&entry.word.as_bytes()[..length]);
            keys.begins[place] |= bit;
        }
        keys
    }

    /// `false` if no word begins at `at`.
    fn may_begin(&self, bytes: &[u8], at: usize) -> bool {
        bytes.get(at..at + self.length).is_some_and(|first| {
            let (place, bit) = begin(first);
            self.begins[place] & bit != 0
        })
    }

    /// A bit for each byte of a page, the first in the lowest bit: 1 if a word may begin there,
    /// judging by that byte and the one before. The second result is `true` if the last byte is a
    /// word character. `before` is that result for the previous page.
    fn places(&self, page: &[u8; PAGE], before: bool, boundaries: Boundaries) -> (u64, bool) {
        let word = mask(page, is_word);
        let begin = self.others.iter().fold(word, |begin, other| begin | mask(page, |byte| byte == *other));
        let inside = if boundaries == Boundaries::Required { word << 1 | u64::from(before) } else { 0 };
        (begin & !inside, word >> (PAGE - 1) != 0)
    }

    /// Adds the node for the sorted entries `from..to`, which share their first `depth` bytes.
    fn node(&mut self, from: usize, to: usize, depth: usize) -> u32 {
        let index = self.nodes.len();
        let here = self.entries.get(from).is_some_and(|entry| from < to && entry.word.len() == depth);
        let entry = if here { from as u32 } else { NONE };
        self.nodes.push(Node { begin: 0, end: 0, entry });
        let mut children = Vec::new();
        let mut begin = from + usize::from(here);
        while begin < to {
            let byte = self.entries[begin].word.as_bytes()[depth];
            let mut end = begin + 1;
            while end < to && self.entries[end].word.as_bytes()[depth] == byte {
                end += 1;
            }
            children.push((byte, self.node(begin, end, depth + 1)));
            begin = end;
        }
        let begin = self.edges.len() as u32;
        self.edges.extend(children);
        self.nodes[index].begin = begin;
        self.nodes[index].end = self.edges.len() as u32;
        index as u32
    }

    fn child(&self, node: u32, byte: u8) -> Option<u32> {
        let node = self.nodes[node as usize];
        let edges = &self.edges[node.begin as usize..node.end as usize];
        edges.iter().find(|(label, _)| *label == byte).map(|&(_, child)| child)
    }

    /// The longest word at `at` whose neighbours `boundaries` allows.
    fn find(&self, text: &str, at: usize, boundaries: Boundaries) -> Option<&Entry> {
        let bytes = text.as_bytes();
        let (mut node, mut best) = (0, NONE);
        for end in at..=bytes.len() {
            let entry = self.nodes[node as usize].entry;
            if entry != NONE && (boundaries == Boundaries::Free || gap_after(text, end)) {
                best = entry;
            }
            let Some(child) = bytes.get(end).and_then(|byte| self.child(node, *byte)) else { break };
            node = child;
        }
        self.entries.get(best as usize)
    }

    /// Replaces words from left to right. The values in `preferred` take precedence over the words'
    /// own. `None` if nothing was replaced.
    pub(crate) fn replace(
        &self,
        text: &str,
        boundaries: Boundaries,
        preferred: Option<&BTreeMap<String, String>>,
        defects: Defects,
        counts: &mut Counts,
    ) -> Option<String> {
        let bytes = text.as_bytes();
        let (mut output, mut copied, mut next) = (String::new(), 0, 0);
        // The original requires a character before a word, and the first position has none.
        let mut before = true;
        for from in (0..bytes.len()).step_by(PAGE) {
            let mut last = [0; PAGE];
            let page = if let Some(page) = bytes[from..].first_chunk() {
                page
            } else {
                last[..bytes.len() - from].copy_from_slice(&bytes[from..]);
                &last
            };
            let (mut places, ends_inside) = self.places(page, before, boundaries);
            before = ends_inside;
            while places != 0 {
                let at = from + places.trailing_zeros() as usize;
                places &= places - 1;
                if at < next || !self.may_begin(bytes, at) {
                    continue;
                }
                let may_stand = boundaries == Boundaries::Free || gap_before(text, at);
                let Some(entry) = may_stand.then(|| self.find(text, at, boundaries)).flatten() else { continue };
                next = at + entry.word.len();
                if defects == Defects::Refuse || !entry.is_done(text, at) {
                    let value = preferred.and_then(|preferred| preferred.get(&entry.word)).unwrap_or(&entry.value);
                    if copied == 0 {
                        output.reserve(text.len() + text.len() / 16);
                    }
                    output.push_str(&text[copied..at]);
                    output.push_str(value);
                    copied = next;
                    match counts.get_mut(&entry.word) {
                        Some(count) => *count += 1,
                        None => drop(counts.insert(entry.word.clone(), 1)),
                    }
                }
            }
        }
        (copied > 0).then(|| {
            output.push_str(&text[copied..]);
            output
        })
    }
}

/// `true` if the byte alone is a word character. Written so that the compiler can process many
/// bytes at a time.
#[allow(clippy::needless_bitwise_bool, reason = "without branches")]
fn is_word(byte: u8) -> bool {
    ((byte | 0x20).wrapping_sub(b'a') < 26) | (byte.wrapping_sub(b'0') < 10) | (byte == b'_')
}

/// A bit for each byte, the first byte in the lowest bit.
fn mask(page: &[u8; PAGE], is_it: impl Fn(u8) -> bool) -> u64 {
    let flags = page.map(|byte| u8::from(is_it(byte)));
    let (eights, _) = flags.as_chunks::<8>();
    // The multiplication moves each flag to its own bit of the highest byte.
    let bits = eights.iter().map(|eight| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56);
    bits.rev().fold(0, |mask, bits| mask << 8 | bits)
}

/// The position of up to four bytes in the table of bits. Different bytes may have the same
/// position.
fn begin(first: &[u8]) -> (usize, u64) {
    let mut four = [0; 4];
    four[..first.len()].copy_from_slice(first);
    // The multiplier of Knuth's hash (The Art of Computer Programming, volume 3, 6.4).
    let hash = u32::from_le_bytes(four).wrapping_mul(2_654_435_769) >> 16;
    ((hash >> 6) as usize, 1 << (hash & 63))
}

impl Entry {
    /// `true` if the word at `at` is already part of its own value, as in a text that was converted
    /// before.
    fn is_done(&self, text: &str, at: usize) -> bool {
        self.inside.iter().any(|&offset| {
            at.checked_sub(offset).is_some_and(|begin| text.as_bytes()[begin..].starts_with(self.value.as_bytes()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(words: &[(&str, &str)], text: &str, boundaries: Boundaries) -> String {
        let map = words.iter().map(|(word, value)| ((*word).to_owned(), (*value).to_owned())).collect();
        let keys = Keys::new(&map);
        keys.replace(text, boundaries, None, Defects::Refuse, &mut Counts::new()).unwrap_or_else(|| text.to_owned())
    }

    #[test]
    fn the_longest_word_that_may_stand_there_wins() {
        let words = [("cuda", "hip"), ("cuda.h", "hip.h"), ("cuda.hp", "never")];
        assert_eq!(replaced(&words, " cuda.h cuda.hpp cudas cuda", Boundaries::Required), " hip.h hip.hpp cudas cuda");
        assert_eq!(replaced(&words, "cuda.hxcudas", Boundaries::Free), "hip.hxhips");
    }

    #[test]
    fn a_word_at_the_first_or_last_place_stays() {
        assert_eq!(replaced(&[("ab", "c")], "ab ab ab", Boundaries::Required), "ab c ab");
    }

    #[test]
    fn words_of_one_byte_are_words() {
        assert_eq!(replaced(&[("a", "b"), ("cd", "e")], "aa a cd acd a", Boundaries::Free), "bb b e be b");
        assert_eq!(replaced(&[("a", "b")], "a aa a- -a", Boundaries::Required), "a aa b- -a");
        assert_eq!(replaced(&[("<a", "b")], "x<a <a; é<a.", Boundaries::Required), "x<a b; é<a.");
    }

    #[test]
    fn a_value_is_not_searched_again() {
        assert_eq!(replaced(&[("a", "b a")], " a a ", Boundaries::Required), " b a b a ");
    }

    #[test]
    fn what_is_done_stays_when_defects_are_fixed() {
        let map = BTreeMap::from([("x.h".to_owned(), "hip/x.h".to_owned())]);
        let keys = Keys::new(&map);
        let mut counts = Counts::new();
        let fixed = keys.replace(" hip/x.h x.h ", Boundaries::Required, None, Defects::Fix, &mut counts);
        assert_eq!((fixed.as_deref(), counts["x.h"]), (Some(" hip/x.h hip/x.h "), 1));
        let faithful = keys.replace(" hip/x.h ", Boundaries::Required, None, Defects::Refuse, &mut counts);
        assert_eq!(faithful.as_deref(), Some(" hip/hip/x.h "));
    }
}
