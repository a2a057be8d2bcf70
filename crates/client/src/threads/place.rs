//! Cursors: places in a thread's stream that can be compared.

use std::fmt;
use std::str::FromStr;

/// A cursor, `LIFE-NUMBER`: a life of the server, and a place in it. Those of different lives cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// The life of the server.
    pub life: String,
    /// The place in it.
    pub place: u64,
}

impl Cursor {
    /// Whether this one is behind the other in the same life.
    #[must_use]
    pub fn follows(&self, other: &Self) -> bool {
        self.life == other.life && self.place > other.place
    }
}

impl FromStr for Cursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (life, place) = text.rsplit_once('-').ok_or(())?;
        Ok(Self { life: life.to_owned(), place: place.parse().map_err(|_no_number| ())? })
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.life, self.place)
    }
}
