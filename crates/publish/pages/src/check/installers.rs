//! Input: an installer. Output: what it asks of an index, as pip 26.3 and uv 0.13 were seen to ask,
//! and what it makes of a packed answer.

use std::io::{self, Read};

use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use rocwheel_index::pages::JSON_TYPE;

pub(super) type RequestHeaders = [(&'static str, &'static str); 2];

/// A program that installs from an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Installer {
    Uv,
    Pip,
}

impl Installer {
    pub(super) const ALL: [Installer; 2] = [Installer::Uv, Installer::Pip];

    pub(super) fn name(self) -> &'static str {
        match self {
            Installer::Uv => "uv",
            Installer::Pip => "pip",
        }
    }

    /// The headers with which it asks for the page of a project.
    pub(super) fn page_headers(self) -> RequestHeaders {
        match self {
            Installer::Uv => [("Accept", rocwheel_index::page::ACCEPT), ("Accept-Encoding", "gzip, deflate, zstd")],
            Installer::Pip => [
                (
                    "Accept",
                    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html; q=0.1, text/html; q=0.01",
                ),
                ("Accept-Encoding", "gzip, deflate"),
            ],
        }
    }

    /// The headers with which it asks for METADATA beside a wheel. Both ask for the wheel itself as
    /// pip asks for METADATA.
    pub(super) fn metadata_headers(self) -> RequestHeaders {
        match self {
            Installer::Uv => [("Accept", "*/*"), ("Accept-Encoding", "zstd,gzip,deflate")],
            Installer::Pip => [("Accept", "*/*"), ("Accept-Encoding", "identity")],
        }
    }

    /// `true` for types of pages that it reads. uv stops at another type, pip skips the page.
    pub(super) fn reads(kind: &str) -> bool {
        [JSON_TYPE, rocwheel_index::pages::HTML_TYPE, "text/html"].contains(&kind)
    }
}

/// The bytes of an answer, unpacked as its header says.
pub(super) fn unpack(encoding: &str, packed: Vec<u8>, limit: u64) -> io::Result<Vec<u8>> {
    match encoding {
        "" => Ok(packed),
        "gzip" | "x-gzip" => read_up_to(limit, MultiGzDecoder::new(&packed[..])),
        // Servers send it with a header of zlib, as they should, or without.
        "deflate" => read_up_to(limit, ZlibDecoder::new(&packed[..]))
            .or_else(|_| read_up_to(limit, DeflateDecoder::new(&packed[..]))),
        "zstd" => read_up_to(limit, zstd::Decoder::new(&packed[..])?),
        other => Err(io::Error::other(format!("it is packed with `{other}`, which was not asked for"))),
    }
}

fn read_up_to(limit: u64, reader: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(limit).read_to_end(&mut bytes).map(|_| bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    #[test]
    fn answers_are_unpacked_as_their_header_says() {
        let text = b"<a href=foo-1.0.tar.gz>foo</a>".to_vec();
        let (mut gzip, mut zlib, mut deflate) = (
            GzEncoder::new(Vec::new(), Compression::fast()),
            ZlibEncoder::new(Vec::new(), Compression::fast()),
            DeflateEncoder::new(Vec::new(), Compression::fast()),
        );
        gzip.write_all(&text).unwrap();
        zlib.write_all(&text).unwrap();
        deflate.write_all(&text).unwrap();
        for (encoding, packed) in [
            ("", text.clone()),
            ("gzip", gzip.finish().unwrap()),
            ("deflate", zlib.finish().unwrap()),
            ("deflate", deflate.finish().unwrap()),
            ("zstd", zstd::encode_all(&text[..], 1).unwrap()),
        ] {
            assert_eq!(unpack(encoding, packed, 1 << 20).unwrap(), text, "{encoding}");
        }
        for encoding in ["gzip", "zstd", "br"] {
            assert!(unpack(encoding, text.clone(), 1 << 20).is_err(), "{encoding}");
        }
    }
}
