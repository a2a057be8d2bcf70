//! How far the message is that is coming in, as the heads of its frames tell.

use tokio::time::Instant;

/// Longest head of a frame: two bytes, a length of eight, a mask of four.
const HEAD_BYTES: usize = 14;

/// Follows the frames that pass. What breaks the rules is found out elsewhere, and then nothing follows.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The head of the next frame, as far as it has come.
    head: [u8; HEAD_BYTES],
    have: usize,
    /// The frame of which the payload is coming.
    frame: Option<Frame>,
    /// Bytes of the message in frames that are whole; none between two messages.
    message: Option<u64>,
    began: Option<Instant>,
}

#[derive(Debug)]
struct Frame {
    control: bool,
    last: bool,
    length: u64,
    come: u64,
}

/// A message, or a frame between two, that has not come whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnderWay {
    /// When its first byte was read.
    pub(super) began: Instant,
    /// Bytes of it that are held.
    pub(super) bytes: u64,
}

impl Progress {
    /// Takes note of bytes that were read.
    pub(super) fn pass(&mut self, mut bytes: &[u8], now: Instant) {
        loop {
            match &mut self.frame {
                Some(frame) => {
                    let come = (frame.length - frame.come).min(bytes.len() as u64);
                    frame.come += come;
                    if frame.come < frame.length {
                        return;
                    }
                    bytes = bytes.get(come as usize..).unwrap_or_default();
                    self.frame_ends();
                }
                None => {
                    let Some((first, rest)) = bytes.split_first() else { return };
                    bytes = rest;
                    self.began.get_or_insert(now);
                    if let Some(byte) = self.head.get_mut(self.have) {
                        *byte = *first;
                    }
                    self.have += 1;
                    if self.have == head_bytes(&self.head, self.have) {
                        self.frame_begins();
                    }
                }
            }
        }
    }

    /// What has come in part.
    pub(super) fn under_way(&self) -> Option<UnderWay> {
        let bytes = self.message.unwrap_or_default() + self.frame.as_ref().map_or(0, |frame| frame.come);
        self.began.map(|began| UnderWay { began, bytes })
    }

    fn frame_begins(&mut self) {
        let [first, second, length @ ..] = self.head;
        let [a, b, c, d, e, f, g, h, ..] = length;
        let length = match second & 0x7f {
            126 => u64::from(u16::from_be_bytes([a, b])),
            127 => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            short => u64::from(short),
        };
        self.have = 0;
        self.frame = Some(Frame { control: first & 0x08 != 0, last: first & 0x80 != 0, length, come: 0 });
    }

    fn frame_ends(&mut self) {
        let Some(frame) = self.frame.take() else { return };
        if !frame.control {
            let message = self.message.unwrap_or_default() + frame.length;
            self.message = (!frame.last).then_some(message);
        }
        if self.message.is_none() {
            self.began = None;
        }
    }
}

/// How long a head is, as far as what there is of it says.
fn head_bytes(head: &[u8; HEAD_BYTES], have: usize) -> usize {
    if have < 2 {
        return 2;
    }
    let length = match head[1] & 0x7f {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    2 + length + if head[1] & 0x80 != 0 { 4 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_is_known_at_every_byte() {
        // A text in two pieces with a ping between them, then a long one of 300 bytes; all masked.
        let mut bytes = vec![0x01, 0x83, 0, 0, 0, 0, b'a', b'b', b'c'];
        bytes.extend([0x89, 0x82, 0, 0, 0, 0, b'?', b'!']);
        bytes.extend([0x80, 0x80, 0, 0, 0, 0]);
        let first = bytes.len();
        bytes.extend([0x81, 0xfe, 1, 44, 0, 0, 0, 0]);
        bytes.extend([b'x'; 300]);
        let now = Instant::now();
        for size in [1, 2, 7, bytes.len()] {
            let mut progress = Progress::default();
            let mut passed = 0;
            for piece in bytes.chunks(size) {
                progress.pass(piece, now);
                passed += piece.len();
                let held = progress.under_way().map(|under_way| under_way.bytes);
                let expected = match passed {
                    at if at == first || at == bytes.len() => None,
                    at if at < 6 => Some(0),
                    at if at < 9 => Some(at as u64 - 6),
                    at if at < 15 => Some(3),
                    16 => Some(4),
                    at if at < first => Some(3),
                    at => Some((at as u64).saturating_sub(first as u64 + 8)),
                };
                assert_eq!(held, expected, "after {passed} bytes in pieces of {size}");
            }
        }
    }
}
