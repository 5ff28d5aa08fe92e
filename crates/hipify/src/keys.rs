//! Input: words and what they become. Output: a text with every word replaced by the rules of the original.

use std::collections::BTreeMap;

use crate::Defects;
use crate::word::{gap_after, gap_before};

const NONE: u32 = u32::MAX;

/// Which characters may stand beside a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Boundaries {
    /// One on each side, and no word character.
    Required,
    /// Any, or none.
    Free,
}

/// Words with their replacements, as a trie over bytes.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    nodes: Vec<Node>,
    /// Children of all nodes, those of one node side by side and sorted.
    edges: Vec<(u8, u32)>,
    entries: Vec<Entry>,
    /// Which two bytes a word begins with, a bit each: most places are dismissed without a look at the trie.
    begins: Box<[u64; 1024]>,
}

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
    /// Where the value has the word itself in it.
    inside: Vec<usize>,
}

/// How often each word was replaced.
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
        let mut keys = Self { nodes: Vec::new(), edges: Vec::new(), entries, begins: Box::new([0; 1024]) };
        let all = keys.entries.len();
        keys.node(0, all, 0);
        for entry in &keys.entries {
            match *entry.word.as_bytes() {
                [first] => keys.begins[usize::from(first) * 4..][..4].fill(u64::MAX),
                [first, second, ..] => keys.begins[bit(first, second).0] |= bit(first, second).1,
                [] => {}
            }
        }
        keys
    }

    /// Whether a word may begin with these two bytes.
    fn may_begin(&self, first: u8, second: u8) -> bool {
        let (word, mask) = bit(first, second);
        self.begins[word] & mask != 0
    }

    /// Makes the node of the sorted entries `from..to`, which agree in the first `depth` bytes.
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

    /// The longest word at `at` that may stand there.
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

    /// The next place from `at` on where a word may begin, by the two bytes there and, within ASCII, by the one before.
    fn candidate(&self, bytes: &[u8], at: usize, boundaries: Boundaries) -> Option<usize> {
        let mut inside = boundaries == Boundaries::Required
            && at.checked_sub(1).is_none_or(|before| WORD[usize::from(bytes[before])]);
        for (offset, pair) in bytes.get(at..)?.windows(2).enumerate() {
            let (first, second) = (pair[0], pair[1]);
            if !inside && self.may_begin(first, second) {
                return Some(at + offset);
            }
            inside = boundaries == Boundaries::Required && WORD[usize::from(first)];
        }
        // A word of one byte at the very end.
        let last = bytes.len().checked_sub(1).filter(|last| *last >= at && !inside)?;
        self.may_begin(bytes[last], 0).then_some(last)
    }

    /// Replaces from left to right; `preferred` values come before those of the words themselves. `None` when nothing was
    /// replaced.
    pub(crate) fn replace(
        &self,
        text: &str,
        boundaries: Boundaries,
        preferred: Option<&BTreeMap<String, String>>,
        defects: Defects,
        counts: &mut Counts,
    ) -> Option<String> {
        let bytes = text.as_bytes();
        let (mut output, mut copied, mut at) = (String::new(), 0, 0);
        while let Some(candidate) = self.candidate(bytes, at, boundaries) {
            at = candidate;
            let may_stand = boundaries == Boundaries::Free || gap_before(text, at);
            let Some(entry) = may_stand.then(|| self.find(text, at, boundaries)).flatten() else {
                at += 1;
                continue;
            };
            let end = at + entry.word.len();
            if defects == Defects::Refuse || !entry.is_done(text, at) {
                let value = preferred.and_then(|preferred| preferred.get(&entry.word)).unwrap_or(&entry.value);
                if copied == 0 {
                    output.reserve(text.len() + text.len() / 16);
                }
                output.push_str(&text[copied..at]);
                output.push_str(value);
                copied = end;
                match counts.get_mut(&entry.word) {
                    Some(count) => *count += 1,
                    None => drop(counts.insert(entry.word.clone(), 1)),
                }
            }
            at = end;
        }
        (copied > 0).then(|| {
            output.push_str(&text[copied..]);
            output
        })
    }
}

/// Bytes that are word characters by themselves.
const WORD: [bool; 256] = {
    let mut word = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        word[byte] = (byte as u8).is_ascii_alphanumeric() || byte as u8 == b'_';
        byte += 1;
    }
    word
};

/// Where two bytes are in a table of bits.
fn bit(first: u8, second: u8) -> (usize, u64) {
    (usize::from(first) * 4 + usize::from(second >> 6), 1 << (second & 63))
}

impl Entry {
    /// Whether the word at `at` is part of its own value already, as in a text that was converted before.
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
