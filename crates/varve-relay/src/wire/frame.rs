//! A frame of a link.
//!
//! ```text
//!  kind u8 | zero u8 | length u16 less one of data, else 0 | data, or a number u64
//! ```

/// Bytes before a frame's data.
pub const FRAME_HEAD_BYTES: usize = 4;

/// Most bytes of data in a frame.
pub const DATA_BYTES_MAX: usize = 1 << 16;

const NUMBER_BYTES: usize = 8;

/// A frame, but for its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkFrame {
    /// So many bytes of the client, or for it.
    Data(usize),
    /// Nothing more comes in this direction.
    End,
    /// By who serves: how far has the client come?
    Ask(u64),
    /// By who carries: what the client had sent when this was asked stands before this.
    Told(u64),
}

/// The head of a frame: its kind, and how many bytes follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameHead {
    /// Data.
    Data(usize),
    /// [`LinkFrame::End`].
    End,
    /// A number follows.
    Ask,
    /// A number follows.
    Told,
}

impl LinkFrame {
    /// The bytes before its data.
    ///
    /// # Panics
    /// When data is empty, or longer than [`DATA_BYTES_MAX`].
    #[must_use]
    pub fn encode(self) -> Vec<u8> {
        match self {
            Self::Data(len) => {
                let less_one = len.checked_sub(1).and_then(|less| u16::try_from(less).ok());
                let [low, high] = less_one.expect("1 to 65536 bytes of data").to_le_bytes();
                vec![1, 0, low, high]
            }
            Self::End => vec![2, 0, 0, 0],
            Self::Ask(number) => [&[3, 0, 0, 0][..], &number.to_le_bytes()].concat(),
            Self::Told(number) => [&[4, 0, 0, 0][..], &number.to_le_bytes()].concat(),
        }
    }
}

impl FrameHead {
    /// What the bytes of a head mean; `None` when they are none.
    #[must_use]
    pub fn decode(bytes: [u8; FRAME_HEAD_BYTES]) -> Option<Self> {
        match bytes {
            [1, 0, low, high] => Some(Self::Data(usize::from(u16::from_le_bytes([low, high])) + 1)),
            [2, 0, 0, 0] => Some(Self::End),
            [3, 0, 0, 0] => Some(Self::Ask),
            [4, 0, 0, 0] => Some(Self::Told),
            _ => None,
        }
    }

    /// Bytes that follow the head.
    #[must_use]
    pub fn rest(self) -> usize {
        match self {
            Self::Data(len) => len,
            Self::End => 0,
            Self::Ask | Self::Told => NUMBER_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_back_and_all_other_bytes_are_none() {
        let mut found = 0;
        for kind in 0..=255 {
            for zero in [0, 1, 128] {
                for len in [[0, 0], [1, 0], [0, 1], [255, 255]] {
                    let head = [kind, zero, len[0], len[1]];
                    let Some(decoded) = FrameHead::decode(head) else { continue };
                    found += 1;
                    let frame = match decoded {
                        FrameHead::Data(len) => LinkFrame::Data(len),
                        FrameHead::End => LinkFrame::End,
                        FrameHead::Ask => LinkFrame::Ask(7),
                        FrameHead::Told => LinkFrame::Told(7),
                    };
                    let encoded = frame.encode();
                    assert_eq!(encoded[..4], head);
                    if !matches!(frame, LinkFrame::Data(_)) {
                        assert_eq!(encoded.len(), FRAME_HEAD_BYTES + decoded.rest());
                    }
                }
            }
        }
        assert_eq!(found, 4 + 3);
    }
}
