//! One resource, listed and watched.
//!
//! `kube::runtime::watcher` hides bookmarks, which tell a quiet cluster from a
//! dead one, does not fall back where lists cannot be streamed, and reopens a
//! watch that ends at once without waiting. This one does all three.

use super::backoff::Backoff;
use futures::StreamExt;
use futures::stream::BoxStream;
use kube::Resource;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::time::{Duration, Instant};

/// What was seen.
#[derive(Debug)]
pub(super) enum Seen<K> {
    /// A list begins; what is known counts until it is complete.
    Begin,
    /// One object of the list.
    Listed(K),
    /// The list is complete.
    Complete,
    /// An object is new or different.
    Applied(K),
    /// An object is gone.
    Deleted(K),
    /// Nothing changed, but the server spoke.
    Alive,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Forbidden,
    Unauthorized,
    Gone,
    Unsupported,
    Unreachable,
    Malformed,
    Server,
}

/// What an error is about.
pub(super) fn why(error: &kube::Error) -> Why {
    match error {
        kube::Error::Api(status) => match status.code {
            401 => Why::Unauthorized,
            403 => Why::Forbidden,
            410 => Why::Gone,
            400 | 422 => Why::Unsupported,
            _ => Why::Server,
        },
        kube::Error::SerdeError(_) => Why::Malformed,
        kube::Error::Auth(_) => Why::Unauthorized,
        _ => Why::Unreachable,
    }
}

enum State<K> {
    Start,
    Page {
        token: Option<String>,
        items: std::vec::IntoIter<K>,
        version: Option<String>,
    },
    Watch {
        version: Option<String>,
        stream: BoxStream<'static, kube::Result<WatchEvent<K>>>,
        listing: bool,
        opened: Instant,
    },
    Resume {
        version: String,
    },
}

/// One resource, listed and watched.
pub(super) struct Watcher<K> {
    api: Api<K>,
    streaming: bool,
    page: u32,
    timeout: u32,
    state: State<K>,
    backoff: Backoff,
    wait: Option<Duration>,
}

/// A server that does not answer at all is given up after this.
const SILENCE: Duration = Duration::from_secs(30);

async fn patiently<T>(call: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    let silent = |_| kube::Error::Service(format!("no answer within {SILENCE:?}").into());
    tokio::time::timeout(SILENCE, call).await.map_err(silent)?
}

/// A watch that ends sooner than this is not opened again at once.
const SOON: Duration = Duration::from_secs(1);

impl<K> Watcher<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    pub(super) fn new(api: Api<K>, page: u32, timeout: u32) -> Self {
        Self {
            api,
            streaming: true,
            page,
            timeout,
            state: State::Start,
            backoff: Backoff::default(),
            wait: None,
        }
    }

    fn params(&self) -> WatchParams {
        WatchParams {
            bookmarks: true,
            timeout: Some(self.timeout),
            ..WatchParams::default()
        }
    }

    fn fail(&mut self, error: kube::Error) -> Result<Seen<K>, kube::Error> {
        self.wait = Some(self.backoff.wait());
        Err(error)
    }

    /// The next thing that is seen. An error shows at once; the wait after it
    /// comes with the next call.
    pub(super) async fn next(&mut self) -> Result<Seen<K>, kube::Error> {
        loop {
            if let Some(wait) = self.wait.take() {
                tokio::time::sleep(wait).await;
            }
            let seen = match std::mem::replace(&mut self.state, State::Start) {
                State::Start => self.start().await?,
                State::Page {
                    token,
                    items,
                    version,
                } => self.page(token, items, version).await?,
                State::Resume { version } => self.resume(version).await?,
                State::Watch {
                    version,
                    stream,
                    listing,
                    opened,
                } => self.event(version, stream, listing, opened).await?,
            };
            if let Some(seen) = seen {
                return Ok(seen);
            }
        }
    }

    async fn start(&mut self) -> Result<Option<Seen<K>>, kube::Error> {
        if !self.streaming {
            self.state = State::Page {
                token: None,
                items: Vec::new().into_iter(),
                version: None,
            };
            return Ok(Some(Seen::Begin));
        }
        let params = self.params().initial_events();
        match patiently(self.api.watch(&params, "0")).await {
            Ok(stream) => {
                self.state = State::Watch {
                    version: None,
                    stream: stream.boxed(),
                    listing: true,
                    opened: Instant::now(),
                };
                Ok(Some(Seen::Begin))
            }
            Err(error) if why(&error) == Why::Unsupported => {
                self.streaming = false;
                Ok(None)
            }
            Err(error) => self.fail(error).map(Some),
        }
    }

    async fn page(
        &mut self,
        token: Option<String>,
        mut items: std::vec::IntoIter<K>,
        version: Option<String>,
    ) -> Result<Option<Seen<K>>, kube::Error> {
        if let Some(object) = items.next() {
            self.state = State::Page {
                token,
                items,
                version,
            };
            return Ok(Some(Seen::Listed(object)));
        }
        if let (None, Some(version)) = (&token, version) {
            self.state = State::Resume { version };
            self.backoff.reset();
            return Ok(Some(Seen::Complete));
        }
        let mut params = ListParams::default().limit(self.page);
        params.continue_token = token;
        match patiently(self.api.list(&params)).await {
            Ok(list) => {
                self.state = State::Page {
                    token: list.metadata.continue_.filter(|t| !t.is_empty()),
                    items: list.items.into_iter(),
                    version: list.metadata.resource_version.or(Some(String::new())),
                };
                Ok(None)
            }
            Err(error) => self.fail(error).map(Some),
        }
    }

    async fn resume(&mut self, version: String) -> Result<Option<Seen<K>>, kube::Error> {
        match patiently(self.api.watch(&self.params(), &version)).await {
            Ok(stream) => {
                self.state = State::Watch {
                    version: Some(version),
                    stream: stream.boxed(),
                    listing: false,
                    opened: Instant::now(),
                };
                Ok(Some(Seen::Alive))
            }
            Err(error) => {
                // What was missed while it was forbidden is not made up.
                if !matches!(why(&error), Why::Gone | Why::Forbidden) {
                    self.state = State::Resume { version };
                }
                self.fail(error).map(Some)
            }
        }
    }

    async fn event(
        &mut self,
        version: Option<String>,
        mut stream: BoxStream<'static, kube::Result<WatchEvent<K>>>,
        mut listing: bool,
        opened: Instant,
    ) -> Result<Option<Seen<K>>, kube::Error> {
        // A connection that died without a word is given up.
        let patience = Duration::from_secs(u64::from(self.timeout) + 5);
        let event = tokio::time::timeout(patience, stream.next()).await;
        let mut at = version;
        let seen = match event.unwrap_or(None) {
            Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                at = object.meta().resource_version.clone().or(at);
                if listing {
                    Seen::Listed(object)
                } else {
                    Seen::Applied(object)
                }
            }
            Some(Ok(WatchEvent::Deleted(object))) => {
                at = object.meta().resource_version.clone().or(at);
                Seen::Deleted(object)
            }
            Some(Ok(WatchEvent::Bookmark(bookmark))) => {
                at = Some(bookmark.metadata.resource_version);
                let ends = "k8s.io/initial-events-end";
                if listing && bookmark.metadata.annotations.contains_key(ends) {
                    listing = false;
                    self.backoff.reset();
                    Seen::Complete
                } else {
                    Seen::Alive
                }
            }
            Some(Ok(WatchEvent::Error(status))) => {
                if let (false, false, Some(version)) = (status.code == 410, listing, at) {
                    self.state = State::Resume { version };
                }
                return self.fail(kube::Error::Api(status)).map(Some);
            }
            Some(Err(error)) => {
                if let (false, Some(version)) = (listing, at) {
                    self.state = State::Resume { version };
                }
                return self.fail(error).map(Some);
            }
            None => {
                match at {
                    // The ordinary end, after the timeout.
                    Some(version) if !listing => {
                        self.state = State::Resume { version };
                        if opened.elapsed() < SOON {
                            self.wait = Some(self.backoff.wait());
                        } else {
                            self.backoff.reset();
                        }
                    }
                    // It ended within the list. A server that does not know
                    // streamed lists goes on to the timeout; another was cut.
                    _ => {
                        let whole = Duration::from_secs(u64::from(self.timeout));
                        if opened.elapsed() + 2 * SOON >= whole {
                            self.streaming = false;
                        }
                        self.wait = Some(self.backoff.wait());
                    }
                }
                return Ok(None);
            }
        };
        if !listing && opened.elapsed() >= SOON {
            self.backoff.reset();
        }
        self.state = State::Watch {
            version: at,
            stream,
            listing,
            opened,
        };
        Ok(Some(seen))
    }
}
