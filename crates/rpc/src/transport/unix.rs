//! A unix socket that several clients connect to; what they speak is the caller's concern.

use std::fs;
use std::future::Future;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Connections that the kernel keeps for us until we accept them.
const BACKLOG: u32 = 1024;
/// How long nothing is accepted after an error such as "too many open files".
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// A listening socket that only its owner may connect to. Dropping it removes the socket's file, unless that has
/// become somebody else's meanwhile.
#[derive(Debug)]
pub struct UnixDoor {
    listener: UnixListener,
    path: PathBuf,
    inode: (u64, u64),
}

impl UnixDoor {
    /// Listens on `path`, mode 0600. What to do with a socket that is left over there is the caller's decision.
    ///
    /// # Errors
    /// `AddrInUse` if there is something at `path`, and whatever binding gives.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let socket = UnixSocket::new_stream()?;
        socket.bind(path)?;
        // Nobody can connect before `listen`, so there is no moment at which others could.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        let inode = inode_of(path)?;
        let listener = socket.listen(BACKLOG)?;
        Ok(Self { listener, path: path.to_owned(), inode })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Accepts clients until `shutdown` and gives each to `handle`, on a task of `tasks`. At most `max_connections` are
    /// handled at a time; more wait to be accepted. Returns when nothing is accepted any more; the tasks may still be
    /// draining.
    pub async fn run<H, F>(
        self,
        max_connections: usize,
        shutdown: CancellationToken,
        tasks: &TaskTracker,
        handle: H,
    ) where
        H: Fn(UnixStream) -> F + Send + Sync,
        F: Future<Output = ()> + Send + 'static,
    {
        let places = Arc::new(Semaphore::new(max_connections));
        loop {
            let accepted = async {
                let place = places.clone().acquire_owned().await;
                (self.listener.accept().await, place)
            };
            let (accepted, place) = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                accepted = accepted => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let handled = handle(stream);
                    tasks.spawn(async move {
                        handled.await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, path = %self.path.display(), "accepting a connection failed");
                    tokio::select! {
                        () = shutdown.cancelled() => return,
                        () = tokio::time::sleep(AFTER_ERROR) => {}
                    }
                }
            }
        }
    }
}

fn inode_of(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

impl Drop for UnixDoor {
    fn drop(&mut self) {
        if inode_of(&self.path).is_ok_and(|inode| inode == self.inode)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "the socket could not be removed");
        }
    }
}
