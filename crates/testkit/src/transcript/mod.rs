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
//! - Other lines that begin with `@` are what happens beside the wire, at this place:
//!
//! | line | what it does |
//! | --- | --- |
//! | `@ argument --unattended` | before the first client: the server is started with this argument too |
//! | `@ agent NAME START` | before the first client: a provider that is the rehearsal agent with `SIGNALBOX_REHEARSAL_START` (`well` for none) |
//! | `@ capabilities 2 {…}` | before client 2's first line: what it says of itself in `initialize` |
//! | `@ leaves 2` | client 2 ends its connection, and has got nothing more; its number may be used for a new one |
//! | `@ terminate` | the server gets SIGTERM; the `←` lines below it are what it still says |
//! | `@ ends 0` | the server has ended by itself with this exit code, after it had said nothing more |
//! | `@ kill` | `kill -9`, and the server is gone |
//! | `@ restart` | the server is started again on the same home; all clients are new |
//! | `@ group gone FILE` | no process is left of the group whose id is in that file of the working folder |
//! | `@ group there FILE` | such a process is there |
//! | `@ file NAME TEXT` | the working folder has this file with this one line |
//! | `@ no file NAME` | it has none |
//!
//! - `<name>` is a hole: its first use binds it, later uses must be the same; so it is in what is sent. `<work>` and
//!   `<root>` are the folders of the test.
//! - `"…"` as a value stands for any value, and as a member (`"…":"…"`) for any further members.
//! - Members that differ from run to run are left out: `jsonrpc`, `seq`, `snapshotSeq`, `cursor`, `revision`, `userAgent`,
//!   `cliVersion`, `version`, `platformOs`, `at`, and whatever ends in `At`, `_at`, `Ms` or `_ms`.
//! - Deltas of one item that follow each other count as one; how text is cut into deltas is left to the server. A delta
//!   of `"…"` stands for all further deltas of its item, wherever they come until it is completed.
//! - The warning that nobody is there to answer is passed over where it is not written: when all have left it comes before
//!   the snapshot of whoever comes next, or behind it.
//!
//! Each is played through every door that it fits: over the unix socket by lines and by WebSocket; if it has one client,
//! over stdio in both framings; and over HTTP if it has one client that starts a thread, or none, and does nothing that
//! takes a connection. There `thread/started` and the requests of the server do not come, and what answers these is sent
//! as `approval/respond`.
//!
//! With `UPDATE=1` in the environment the files are rewritten: each group of `←` lines becomes what came up to the last
//! line of the group (so a new transcript needs only that one), and `"…"` stay where they are.

mod doors;
mod holes;
mod lines;
mod play;

pub use doors::Door;
pub use play::{doors_of, play};
