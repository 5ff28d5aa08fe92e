//! Input: the bytes of an XML file in any encoding, with texts of any length. Output: UTF-8 whose
//! texts and values are bounded, so that a parser needs no memory for 100 MB of output.

use std::io::{self, Read};

/// Bytes that are kept of each text, each section of CDATA, each comment and each value of an
/// attribute.
pub(crate) const LONGEST: usize = 1 << 16;
/// Bytes of a tag.
const LARGEST_TAG: usize = 1 << 20;
const BLOCK: usize = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum XmlEncoding {
    Utf8,
    Utf16Little,
    Utf16Big,
    Latin,
}

/// Decodes a file in any encoding to UTF-8. Bytes that are not UTF-8 stay, and the parser replaces
/// them.
struct Utf8Input<R> {
    inner: R,
    encoding: XmlEncoding,
    /// Bytes that were read to find the encoding, or that are half of a character.
    rest: Vec<u8>,
    high: Option<u16>,
}

impl<R: Read> Utf8Input<R> {
    fn new(mut inner: R) -> io::Result<Self> {
        let mut rest = Vec::new();
        inner.by_ref().take(256).read_to_end(&mut rest)?;
        let (encoding, mark) = match rest.as_slice() {
            [0xef, 0xbb, 0xbf, ..] => (XmlEncoding::Utf8, 3),
            [0xff, 0xfe, ..] => (XmlEncoding::Utf16Little, 2),
            [0xfe, 0xff, ..] => (XmlEncoding::Utf16Big, 2),
            [b'<', 0, ..] => (XmlEncoding::Utf16Little, 0),
            [0, b'<', ..] => (XmlEncoding::Utf16Big, 0),
            bytes => (declared(bytes), 0),
        };
        rest.drain(..mark);
        Ok(Self { inner, encoding, rest, high: None })
    }

    /// Appends decoded bytes; `false` at the end.
    fn fill(&mut self, output: &mut Vec<u8>) -> io::Result<bool> {
        let mut bytes = std::mem::take(&mut self.rest);
        let kept = bytes.len();
        bytes.resize(kept + BLOCK, 0);
        let count = self.inner.read(&mut bytes[kept..])?;
        bytes.truncate(kept + count);
        match self.encoding {
            XmlEncoding::Utf8 => output.extend_from_slice(&bytes),
            XmlEncoding::Latin => {
                output.extend(bytes.iter().map(|byte| char::from(*byte)).collect::<String>().into_bytes());
            }
            XmlEncoding::Utf16Little | XmlEncoding::Utf16Big => {
                if bytes.len() % 2 == 1 {
                    self.rest.extend(bytes.pop());
                }
                let is_little = self.encoding == XmlEncoding::Utf16Little;
                let read = if is_little { u16::from_le_bytes } else { u16::from_be_bytes };
                let pairs = bytes.chunks_exact(2).map(|pair| read([pair[0], pair[1]]));
                let mut units: Vec<u16> = self.high.take().into_iter().chain(pairs).collect();
                if count > 0 && units.last().is_some_and(|unit| (0xd800..0xdc00).contains(unit)) {
                    self.high = units.pop();
                }
                output.extend(String::from_utf16_lossy(&units).into_bytes());
            }
        }
        Ok(count > 0)
    }
}

/// The encoding that an XML declaration names. What we do not know is read as UTF-8.
fn declared(bytes: &[u8]) -> XmlEncoding {
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    let name = text.split_once("encoding=").map_or("", |(_, rest)| rest.trim_start_matches(['"', '\'']));
    let is_latin = ["iso-8859-1", "latin1", "windows-1252", "us-ascii"].iter().any(|known| name.starts_with(known));
    if is_latin { XmlEncoding::Latin } else { XmlEncoding::Utf8 }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum XmlPart {
    Text,
    /// After `<`, until it is known what begins.
    Begin,
    Tag {
        quote: u8,
    },
    Instruction,
    /// The number of `]` that were read and not passed on.
    Data(usize),
    /// The number of `-` that were read and not passed on.
    Comment(usize),
}

/// Reads a file for a parser.
pub(crate) struct XmlInput<R> {
    input: Utf8Input<R>,
    decoded: Vec<u8>,
    ready: Vec<u8>,
    at: usize,
    part: XmlPart,
    head: Vec<u8>,
    /// Bytes of the current text or value.
    run: usize,
    tag: usize,
    /// Bytes that were dropped.
    pub(crate) cut: u64,
}

impl<R: Read> XmlInput<R> {
    pub(crate) fn new(inner: R) -> io::Result<Self> {
        Ok(Self {
            input: Utf8Input::new(inner)?,
            decoded: Vec::new(),
            ready: Vec::new(),
            at: 0,
            part: XmlPart::Text,
            head: Vec::new(),
            run: 0,
            tag: 0,
            cut: 0,
        })
    }

    fn keep(&mut self, byte: u8) {
        if self.run < LONGEST {
            self.run += 1;
            self.ready.push(byte);
        } else {
            self.cut += 1;
        }
    }

    fn enter(&mut self, part: XmlPart) {
        self.part = part;
        self.run = 0;
    }

    fn step(&mut self, byte: u8) -> io::Result<()> {
        match self.part {
            XmlPart::Text if byte == b'<' => {
                self.ready.push(byte);
                self.head.clear();
                self.head.push(byte);
                self.tag = 0;
                self.enter(XmlPart::Begin);
            }
            XmlPart::Begin => self.begin(byte),
            XmlPart::Tag { quote: 0 } => {
                self.ready.push(byte);
                self.count_tag()?;
                match byte {
                    b'>' => self.enter(XmlPart::Text),
                    b'"' | b'\'' => self.enter(XmlPart::Tag { quote: byte }),
                    _ => {}
                }
            }
            XmlPart::Tag { quote } if byte == quote => {
                self.ready.push(byte);
                self.enter(XmlPart::Tag { quote: 0 });
            }
            XmlPart::Text | XmlPart::Tag { .. } => self.keep(byte),
            XmlPart::Instruction => {
                self.ready.push(byte);
                self.count_tag()?;
                if byte == b'>' {
                    self.enter(XmlPart::Text);
                }
            }
            XmlPart::Data(count) => match byte {
                b']' => self.part = XmlPart::Data(count + 1),
                b'>' if count >= 2 => {
                    (2..count).for_each(|_| self.keep(b']'));
                    self.ready.extend_from_slice(b"]]>");
                    self.enter(XmlPart::Text);
                }
                _ => {
                    (0..count).for_each(|_| self.keep(b']'));
                    self.keep(byte);
                    self.part = XmlPart::Data(0);
                }
            },
            XmlPart::Comment(count) => match byte {
                b'-' => self.part = XmlPart::Comment(count + 1),
                b'>' if count >= 2 => {
                    (2..count).for_each(|_| self.keep(b'-'));
                    self.ready.extend_from_slice(b"-->");
                    self.enter(XmlPart::Text);
                }
                _ => {
                    (0..count).for_each(|_| self.keep(b'-'));
                    self.keep(byte);
                    self.part = XmlPart::Comment(0);
                }
            },
        }
        Ok(())
    }

    fn begin(&mut self, byte: u8) {
        self.head.push(byte);
        self.ready.push(byte);
        if self.head == b"<![CDATA[" {
            self.enter(XmlPart::Data(0));
        } else if self.head == b"<!--" {
            self.enter(XmlPart::Comment(0));
        } else if b"<![CDATA[".starts_with(&self.head) || b"<!--".starts_with(&self.head) {
            // It is not known yet what begins.
        } else if byte == b'>' {
            self.enter(XmlPart::Text);
        } else if self.head.starts_with(b"<?") || self.head.starts_with(b"<!") {
            self.enter(XmlPart::Instruction);
        } else {
            let quote = if matches!(byte, b'"' | b'\'') { byte } else { 0 };
            self.enter(XmlPart::Tag { quote });
        }
    }

    fn count_tag(&mut self) -> io::Result<()> {
        self.tag += 1;
        if self.tag > LARGEST_TAG {
            return Err(io::Error::other("a tag is larger than 1 MiB"));
        }
        Ok(())
    }
}

impl<R: Read> Read for XmlInput<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.ready.len() {
            self.ready.clear();
            self.at = 0;
            let mut decoded = std::mem::take(&mut self.decoded);
            decoded.clear();
            let has_more = self.input.fill(&mut decoded)?;
            for byte in &decoded {
                self.step(*byte)?;
            }
            self.decoded = decoded;
            if !has_more && self.ready.is_empty() {
                return Ok(0);
            }
        }
        let count = buffer.len().min(self.ready.len() - self.at);
        buffer[..count].copy_from_slice(&self.ready[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> (String, u64) {
        let mut input = XmlInput::new(bytes).unwrap();
        let mut text = Vec::new();
        input.read_to_end(&mut text).unwrap();
        (String::from_utf8(text).unwrap(), input.cut)
    }

    #[test]
    fn ordinary_files_stay() {
        let text = "<?xml version='1.0'?><a b=\"1>2\" c='\"'>t]]x<![CDATA[a]b]]c]]]]><d/>&lt;</a>";
        assert_eq!(read(text.as_bytes()), (text.to_owned(), 0));
        let comment = "<a><!-- x -- y > z ---></a>";
        assert_eq!(read(comment.as_bytes()), (comment.to_owned(), 0));
    }

    #[test]
    fn texts_values_and_cdata_are_bounded() {
        let long = "x".repeat(LONGEST * 3);
        for (text, rest) in [
            (format!("<a>{long}</a>"), "</a>"),
            (format!("<a b=\"{long}\"/>"), "\"/>"),
            (format!("<a><![CDATA[{long}]]]></a>"), "]]></a>"),
            (format!("<a><!--{long}---></a>"), "--></a>"),
        ] {
            let (kept, cut) = read(text.as_bytes());
            assert!(kept.len() < LONGEST + 32 && kept.ends_with(rest), "{}", kept.len());
            assert!(cut >= 2 * LONGEST as u64);
        }
        let mut input = XmlInput::new(io::repeat(b'<').take(1).chain(io::repeat(b'a'))).unwrap();
        assert!(io::copy(&mut input, &mut io::sink()).is_err(), "an endless tag");
    }

    #[test]
    fn encodings_become_utf8() {
        let text = "<a>é😀</a>";
        let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(read(&[&[0xff, 0xfe], &little[..]].concat()).0, text);
        assert_eq!(read(&[&[0xfe, 0xff], &big[..]].concat()).0, text);
        assert_eq!(read(&little).0, text);
        assert_eq!(read(&[&[0xef, 0xbb, 0xbf], text.as_bytes()].concat()).0, text);
        let latin = b"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a>\xe9</a>";
        assert!(read(latin).0.ends_with("<a>é</a>"));
    }
}
