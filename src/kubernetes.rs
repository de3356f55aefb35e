//! The live inventory: nodes and pods of a Kubernetes cluster.
//!
//! A watch that breaks is taken up where it was; what is known goes on being
//! served meanwhile, and metrics tell how old it is. A list that is begun
//! anew takes the place of the old one at once, when it is complete.

mod backoff;
mod objects;
mod watcher;

use crate::causes::causes;
use crate::cluster::{Defaults, Links, Node};
use crate::inventory::{Holding, Inventory};
use crate::serve::State;
use kube::api::Api;
use kube::{Client, Config};
use objects::{NodeResource, PodResource};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use watcher::{Seen, Watcher, Why, why};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Changes within this time become one snapshot.
const GATHER: Duration = Duration::from_millis(20);
/// Objects of a page, where lists are not streamed.
const PAGE: u32 = 500;
/// Seconds of a watch. Short, so that a quiet cluster is heard of: each watch
/// that is opened anew is a sign of life.
const WATCH: u32 = 60;

/// What both watches tell.
struct Feed {
    state: Arc<State>,
    inventory: Mutex<Inventory>,
    changed: Notify,
}

impl Feed {
    fn with<T>(&self, change: impl FnOnce(&mut Inventory) -> T) -> T {
        change(
            &mut self
                .inventory
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}

/// Begins to watch; nodes appear in the state as they are seen.
pub(crate) async fn watch(
    state: Arc<State>,
    defaults: Defaults,
    links: Links,
) -> Result<(), Failure> {
    let mut config = Config::infer().await.map_err(|error| {
        format!("--kube: no cluster to talk to: {error}\n  hint: run in a pod with a service account, or set KUBECONFIG")
    })?;
    config.connect_timeout = Some(Duration::from_secs(5));
    config.read_timeout = None;
    let client = Client::try_from(config)?;
    let feed = Arc::new(Feed {
        state,
        inventory: Mutex::new(Inventory::new(defaults, links)),
        changed: Notify::new(),
    });
    tokio::spawn(nodes(
        Arc::clone(&feed),
        Watcher::new(Api::all(client.clone()), PAGE, WATCH),
    ));
    tokio::spawn(pods(
        Arc::clone(&feed),
        Watcher::new(Api::all(client), PAGE, WATCH),
    ));
    tokio::spawn(publish(feed));
    Ok(())
}

/// Turns changes into snapshots, as many as come together into one.
async fn publish(feed: Arc<Feed>) {
    loop {
        feed.changed.notified().await;
        tokio::time::sleep(GATHER).await;
        let cluster = feed.with(|inventory| inventory.cluster());
        feed.state.publish_cluster(cluster);
    }
}

async fn nodes(feed: Arc<Feed>, mut watcher: Watcher<NodeResource>) {
    let mut listed: Option<Vec<Arc<Node>>> = None;
    let mut in_touch = false;
    loop {
        let seen = match watcher.next().await {
            Ok(seen) => seen,
            Err(error) => {
                tell("nodes", &error);
                in_touch = false;
                feed.state.set_in_touch(false);
                continue;
            }
        };
        feed.state.metrics.contact();
        let changed = match seen {
            Seen::Begin => {
                listed = Some(Vec::new());
                continue;
            }
            Seen::Listed(node) => {
                if let Some(listed) = &mut listed {
                    listed.push(feed.with(|inventory| inventory.read(&node.object)));
                }
                continue;
            }
            Seen::Complete => {
                let listed: Vec<_> = listed.take().unwrap_or_default();
                let count = listed.len();
                feed.with(|inventory| inventory.reset(listed));
                let cluster = feed.with(|inventory| inventory.cluster());
                feed.state.publish_first(cluster);
                tracing::info!(nodes = count, "read all nodes");
                false
            }
            Seen::Applied(node) => feed.with(|inventory| inventory.apply(&node.object)),
            Seen::Deleted(node) => {
                let name = &node.object.metadata.name;
                if let Some(listed) = &mut listed {
                    listed.retain(|other| other.name != *name);
                }
                feed.with(|inventory| inventory.delete(name))
            }
            Seen::Alive => false,
        };
        if !in_touch && listed.is_none() {
            in_touch = true;
            feed.state.set_in_touch(true);
        }
        if changed {
            feed.changed.notify_one();
        }
    }
}

async fn pods(feed: Arc<Feed>, mut watcher: Watcher<PodResource>) {
    let mut listed: Option<HashMap<String, Holding>> = None;
    let mut members: Vec<(String, String, String, u32)> = Vec::new();
    loop {
        let seen = match watcher.next().await {
            Ok(seen) => seen,
            Err(error) => {
                tell("pods", &error);
                if why(&error) == Why::Forbidden {
                    let warning = "pods may not be read, so that accelerators which others hold count as free; grant get, list and watch on pods".to_owned();
                    if feed.with(|inventory| inventory.blind(warning)) {
                        feed.changed.notify_one();
                    }
                }
                continue;
            }
        };
        let changed = match seen {
            Seen::Begin => {
                listed = Some(HashMap::new());
                members.clear();
                false
            }
            Seen::Listed(pod) => {
                members.extend(member(&pod));
                if let (Some(listed), Some(holding)) = (&mut listed, pod.holding()) {
                    listed.insert(pod.key(), holding);
                }
                false
            }
            Seen::Complete => {
                let listed = listed.take().unwrap_or_default();
                feed.with(|inventory| inventory.reset_pods(listed));
                feed.state.gangs(|gangs| gangs.reset(members.drain(..)));
                true
            }
            Seen::Applied(pod) => {
                feed.state.gangs(|gangs| match member(&pod) {
                    Some((gang, name, node, workers)) => gangs.bind(&gang, &name, &node, workers),
                    // Not yet bound: what is assumed of it stays.
                    None if pod.gang().is_some() && !pod.is_over() => {}
                    None => gangs.remove(&pod.key()),
                });
                feed.with(|inventory| inventory.hold(&pod.key(), pod.holding()))
            }
            Seen::Deleted(pod) => {
                feed.state.gangs(|gangs| gangs.remove(&pod.key()));
                if let Some(listed) = &mut listed {
                    listed.remove(&pod.key());
                }
                feed.with(|inventory| inventory.hold(&pod.key(), None))
            }
            Seen::Alive => false,
        };
        if changed {
            feed.changed.notify_one();
        }
    }
}

/// A bound pod of a gang: the gang, its name, its node, its workers.
fn member(pod: &PodResource) -> Option<(String, String, String, u32)> {
    let (gang, node) = (pod.gang()?, pod.node()?);
    let workers = pod.holding().map_or(1, |h| h.accelerators);
    Some((gang.to_owned(), pod.key(), node.to_owned(), workers))
}

/// Says what is wrong with a watch, and what would mend it.
fn tell(what: &str, error: &kube::Error) {
    let message = match error {
        kube::Error::Api(status) => status.message.clone(),
        other => causes(other),
    };
    match why(error) {
        Why::Forbidden => tracing::error!(
            resource = what,
            %message,
            "refused by RBAC: bind a ClusterRole with the rule {{apiGroups: [\"\"], resources: [{what}], verbs: [get, list, watch]}}"
        ),
        Why::Unauthorized => tracing::error!(
            resource = what,
            %message,
            "the API server does not accept the credentials; they are read again"
        ),
        Why::Gone => tracing::info!(resource = what, "the watch is too old; listing anew"),
        Why::Unsupported | Why::Unreachable | Why::Malformed | Why::Server => {
            tracing::warn!(
                resource = what,
                %message,
                "cannot watch; what is known serves on, and it is tried again"
            );
        }
    }
}
