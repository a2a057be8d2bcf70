//! A login that the agent does itself: what it says meanwhile is shown as it comes, addresses are the user's to open.

use std::io::{self, BufRead, Write};

use anstyle::Style;
use signalbox_client::Client;
use signalbox_protocol::app::{
    EmptyResult, LoginProgress, ProviderLoginAnswerParams, ProviderLoginParams, ProviderLoginResult, method,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::{Trouble, refused, say};

/// Logs in, and shows what is said until that is done.
pub(super) async fn log_in(
    client: &Client,
    params: &ProviderLoginParams,
    said: &mut mpsc::Receiver<LoginProgress>,
) -> Result<(), Trouble> {
    let mut shown = Shown { provider: params.provider.clone(), in_line: false };
    let mut login = std::pin::pin!(client.call::<_, ProviderLoginResult>(method::PROVIDER_LOGIN, params));
    // The address that is asked about, and the line that is being read for it: reading cannot be given up, so a line that
    // comes too late for one address is for the next.
    let (mut asked, mut line) = (None, None::<JoinHandle<io::Result<String>>>);
    loop {
        tokio::select! {
            biased;
            Some(progress) = said.recv() => match progress {
                LoginProgress::Output { text } => shown.piece(&text)?,
                LoginProgress::Address { request_id, message, url } => {
                    shown.end_line()?;
                    say(&format!("{}\n\n  {}\n", plain(&message), plain(&url)))?;
                    say("Open this address. Press Enter when you have, or answer n if you do not want to.")?;
                    asked = Some(request_id);
                    line.get_or_insert_with(|| tokio::task::spawn_blocking(read_line));
                }
                LoginProgress::AddressDone { request_id } if asked == Some(request_id) => {
                    shown.end_line()?;
                    say("That is done.")?;
                    asked = None;
                }
                LoginProgress::AddressDone { .. } => {}
            },
            answer = read(&mut line), if line.is_some() => {
                line = None;
                let answer = answer?;
                if let Some(request_id) = asked.take() {
                    let accept = !matches!(answer.trim(), "n" | "N" | "no");
                    let params = ProviderLoginAnswerParams { provider: params.provider.clone(), request_id, accept };
                    let _: EmptyResult = client.call(method::PROVIDER_LOGIN_ANSWER, &params).await.map_err(refused)?;
                }
            }
            done = login.as_mut() => {
                shown.end_line()?;
                return done.map(drop).map_err(refused);
            }
        }
    }
}

/// The end of the input counts as Enter: the address was shown, and nobody is there to decline.
fn read_line() -> io::Result<String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map(|_| line)
}

async fn read(line: &mut Option<JoinHandle<io::Result<String>>>) -> io::Result<String> {
    match line {
        Some(line) => line.await.map_err(io::Error::other)?,
        None => std::future::pending().await,
    }
}

/// What an agent says, dim, each line with the agent's name before it.
struct Shown {
    provider: String,
    /// The last piece did not end its line.
    in_line: bool,
}

impl Shown {
    fn piece(&mut self, text: &str) -> io::Result<()> {
        let mut stderr = anstream::stderr().lock();
        let dim = Style::new().dimmed();
        for part in plain(text).split_inclusive('\n') {
            let (words, end) = part.strip_suffix('\n').map_or((part, ""), |words| (words, "\n"));
            let name = if self.in_line { String::new() } else { format!("{} | ", self.provider) };
            write!(stderr, "{dim}{name}{words}{dim:#}{end}")?;
            self.in_line = end.is_empty();
        }
        stderr.flush()
    }

    fn end_line(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.in_line) {
            writeln!(anstream::stderr())?;
        }
        Ok(())
    }
}

/// Text without what would move the cursor, colour it or hide something.
fn plain(text: &str) -> String {
    let text = anstream::adapter::strip_str(text).to_string();
    text.chars().filter(|one| !one.is_control() || matches!(one, '\n' | '\t')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_an_agent_moves_the_cursor() {
        assert_eq!(plain("\u{1b}[2J\u{1b}[31mCode\u{1b}[0m: A\r\u{8}B\n"), "Code: AB\n");
    }
}
