//! Transcripts: text files of what clients send (`→`) and what they get (`←`), played against the real binary.
//!
//! ```text
//! # An approved command.
//! → {"id":2,"method":"turn/start","params":{"threadId":"<thread>","input":[{"type":"text","text":"run make"}]}}
//! ← {"id":2,"result":{"turn":{"id":"<turn>","status":"inProgress","…":"…"}}}
//! 2← {"method":"turn/started","params":{"threadId":"<thread>","turn":"…"}}
//! ```
//!
//! - `→` and `←` are the first client's, `2→` and `2←` the second's, and so on. A line is sent when everything above it
//!   has come; what a client gets must be exactly the lines there are, in their order.
//! - Clients are initialized before their first line. With a line `@ raw` they are not.
//! - `<name>` is a hole: its first use binds it, later uses must be the same; so it is in what is sent. `<work>` and
//!   `<root>` are the folders of the test.
//! - `"…"` as a value stands for any value, and as a member (`"…":"…"`) for any further members.
//! - Members that differ from run to run are left out: `jsonrpc`, `seq`, `snapshotSeq`, `cursor`, `revision`, `userAgent`,
//!   `cliVersion`, `version`, `platformOs`, `at`, and whatever ends in `At`, `_at`, `Ms` or `_ms`.
//! - Deltas of one item that follow each other count as one; how text is cut into deltas is left to the server. A delta
//!   of `"…"` stands for all further deltas of its item, wherever they come until it is completed.
//!
//! With `UPDATE=1` in the environment the files are rewritten: each group of `←` lines becomes what came up to the last
//! line of the group (so a new transcript needs only that one), and `"…"` stay where they are.

mod holes;
mod lines;
mod play;

pub use play::play;
