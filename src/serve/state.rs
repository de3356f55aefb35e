//! What handlers share: the snapshot they read, and the way a new one takes
//! its place.

use super::config::Limits;
use super::metrics::Metrics;
use crate::calibration::Calibration;
use crate::cluster::{Cluster, Defaults, Links};
use crate::gang::Gangs;
use crate::snapshot::{Snapshot, Snapshots};
use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Semaphore, watch};

/// The name of the calibration that the program came with.
pub(crate) const SHIPPED: &str = "shipped";

/// Calibrations that can be put in force again.
const MOST_VERSIONS: usize = 20;

/// What handlers share.
pub(crate) struct State {
    snapshot: ArcSwap<Snapshot>,
    publisher: Mutex<Publisher>,
    /// Counts snapshots, for those who watch.
    pub(crate) published: watch::Sender<u64>,
    /// Numbers for Prometheus.
    pub(crate) metrics: Metrics,
    /// What one call may ask for.
    pub(crate) limits: Limits,
    /// Plans and simulations at a time.
    pub(crate) heavy: Arc<Semaphore>,
    /// Watches of nodes at a time.
    pub(crate) watches: Arc<Semaphore>,
    /// What to assume of nodes that callers bring, and of the links.
    pub(crate) defaults: Defaults,
    pub(crate) links: Links,
    /// Whether the server is on its way out.
    pub(crate) draining: watch::Sender<bool>,
    synced: AtomicBool,
    in_touch: AtomicBool,
    /// What the program was started with.
    started_with: Arc<Calibration>,
    /// What fits are drawn towards: that, or what was imported since.
    base: ArcSwap<Calibration>,
    /// Numbers of versions that were given.
    numbers: AtomicU64,
    /// Whether somebody wanted an earlier calibration back.
    rolled_back: AtomicBool,
    /// One fit at a time.
    pub(crate) fitting: tokio::sync::Mutex<()>,
    /// Where members of gangs are; no gRPC handler looks here.
    gangs: Mutex<Gangs>,
}

/// Watches of nodes at a time.
const WATCHES: usize = 256;

/// Makes snapshots, one at a time.
struct Publisher {
    snapshots: Snapshots,
    versions: VecDeque<Arc<Calibration>>,
}

impl State {
    pub(crate) fn new(
        cluster: Cluster,
        calibration: Calibration,
        kept: Versions,
        synced: bool,
        (defaults, links): (Defaults, Links),
        limits: Limits,
        metrics: Metrics,
    ) -> Arc<Self> {
        let mut snapshots = Snapshots::default();
        let base = Arc::new(calibration);
        // What was learnt before goes on, unless it came from something else.
        let restored = kept.started_with.as_ref() == Some(&*base);
        let kept_versions = kept.calibrations;
        let mut versions: VecDeque<Arc<Calibration>> =
            kept_versions.into_iter().map(Arc::new).collect();
        let calibration = match versions.pop_front() {
            Some(first) if restored => first,
            Some(first) => {
                versions.push_front(first);
                Arc::clone(&base)
            }
            None => Arc::clone(&base),
        };
        metrics.calibration(&calibration);
        let snapshot = snapshots.take(cluster, calibration, None);
        metrics.inventory(&snapshot.cluster);
        metrics.synced(synced);
        Arc::new(Self {
            snapshot: ArcSwap::from_pointee(snapshot),
            publisher: Mutex::new(Publisher {
                snapshots,
                versions,
            }),
            published: watch::Sender::new(0),
            heavy: Arc::new(Semaphore::new(limits.concurrent_plans)),
            watches: Arc::new(Semaphore::new(WATCHES)),
            defaults,
            links,
            draining: watch::Sender::new(false),
            metrics,
            limits,
            synced: AtomicBool::new(synced),
            in_touch: AtomicBool::new(synced),
            base: ArcSwap::from_pointee(match kept.base {
                Some(base) if restored => base,
                _ => Calibration::clone(&base),
            }),
            started_with: base,
            numbers: AtomicU64::new(kept.number),
            rolled_back: AtomicBool::new(restored && kept.rolled_back),
            fitting: tokio::sync::Mutex::default(),
            gangs: Mutex::default(),
        })
    }

    /// The state of the world, for the length of a call.
    #[inline]
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Whether all nodes have been seen once.
    pub(crate) fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    /// Whether the source of nodes is in touch.
    pub(crate) fn is_in_touch(&self) -> bool {
        self.in_touch.load(Ordering::Relaxed)
    }

    /// The source of nodes is in touch, or not.
    pub(crate) fn set_in_touch(&self, in_touch: bool) {
        self.in_touch.store(in_touch, Ordering::Relaxed);
        self.metrics.synced(in_touch);
    }

    /// Whether it takes new work: all nodes seen once, and not on its way out.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_synced() && !*self.draining.borrow()
    }

    /// Puts the first whole cluster in place, or one that was listed anew.
    pub(crate) fn publish_first(&self, cluster: Cluster) {
        self.publish_cluster(cluster);
        self.synced.store(true, Ordering::Release);
        // Those who waited for it look again.
        self.published.send_modify(|count| *count += 1);
    }

    /// A version that none had before.
    pub(crate) fn new_version(&self, from: &str) -> String {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        format!("{from}-{number}")
    }

    /// The state of versions, as it is kept.
    pub(crate) fn versions_state(&self) -> Versions {
        Versions {
            calibrations: Vec::new(),
            started_with: Some(Calibration::clone(&self.started_with)),
            base: Some(Calibration::clone(&self.base())),
            number: self.numbers.load(Ordering::Relaxed),
            rolled_back: self.rolled_back.load(Ordering::Relaxed),
        }
    }

    /// What fits are drawn towards.
    pub(crate) fn base(&self) -> Arc<Calibration> {
        self.base.load_full()
    }

    /// Windows that must have been seen before a fit, where `usual` are
    /// enough: who rolled back knows something, and is not overruled soon.
    pub(crate) fn patience(&self, usual: u64) -> u64 {
        const AFTER_ROLLBACK: u64 = 10;
        if self.rolled_back.load(Ordering::Relaxed) {
            usual * AFTER_ROLLBACK
        } else {
            usual
        }
    }

    /// Looks at, or changes, where members of gangs are.
    pub(crate) fn gangs<T>(&self, with: impl FnOnce(&mut Gangs) -> T) -> T {
        with(&mut self.gangs.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn publisher(&self) -> MutexGuard<'_, Publisher> {
        self.publisher
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts another cluster in place.
    pub(crate) fn publish_cluster(&self, cluster: Cluster) {
        let mut publisher = self.publisher();
        let now = self.snapshot();
        let same_links = now.cluster.links == cluster.links;
        let answers = same_links.then(|| Arc::clone(&now.answers));
        let next = publisher
            .snapshots
            .take(cluster, Arc::clone(&now.calibration), answers);
        self.put(next);
    }

    fn put(&self, snapshot: Snapshot) {
        self.metrics.inventory(&snapshot.cluster);
        self.snapshot.store(Arc::new(snapshot));
        self.published.send_modify(|count| *count += 1);
    }

    /// Puts a calibration in force that others are drawn towards from now on.
    pub(crate) fn import(&self, calibration: Calibration) {
        self.base.store(Arc::new(calibration.clone()));
        self.put_in_force(calibration);
    }

    /// Puts a calibration in force that was found better than `than`; false
    /// where another took that one's place meanwhile.
    pub(crate) fn put_instead(&self, calibration: Calibration, than: &Arc<Calibration>) -> bool {
        let mut publisher = self.publisher();
        let before = Arc::clone(&self.snapshot().calibration);
        if !Arc::ptr_eq(&before, than) {
            return false;
        }
        self.replace(&mut publisher, calibration);
        true
    }

    /// Puts a calibration in force, and keeps the one before.
    pub(crate) fn put_in_force(&self, calibration: Calibration) {
        self.replace(&mut self.publisher(), calibration);
    }

    fn replace(&self, publisher: &mut Publisher, calibration: Calibration) {
        self.rolled_back.store(false, Ordering::Relaxed);
        let before = Arc::clone(&self.snapshot().calibration);
        publisher.versions.push_front(before);
        publisher.versions.truncate(MOST_VERSIONS);
        self.put_calibration(publisher, Arc::new(calibration));
    }

    /// Puts an earlier calibration in force again: its version, or `None`
    /// where there is no such.
    pub(crate) fn rollback(&self, version: &str) -> Option<String> {
        let mut publisher = self.publisher();
        let wanted = |c: &Arc<Calibration>| {
            version.is_empty() || c.version.as_deref().unwrap_or(SHIPPED) == version
        };
        let place = publisher.versions.iter().position(wanted)?;
        let found = publisher.versions.remove(place)?;
        // Those after it are gone with it.
        publisher.versions.drain(..place);
        let name = found.version.clone().unwrap_or_default();
        self.rolled_back.store(true, Ordering::Relaxed);
        self.put_calibration(&mut publisher, found);
        Some(name)
    }

    fn put_calibration(&self, publisher: &mut Publisher, calibration: Arc<Calibration>) {
        self.metrics.calibration(&calibration);
        let cluster = Cluster::clone(&self.snapshot().cluster);
        let next = publisher.snapshots.take(cluster, calibration, None);
        self.put(next);
    }

    /// The calibration in force, then those that can be put in force again.
    pub(crate) fn all_versions(&self) -> Vec<Arc<Calibration>> {
        let publisher = self.publisher();
        let first = Arc::clone(&self.snapshot().calibration);
        std::iter::once(first)
            .chain(publisher.versions.iter().cloned())
            .collect()
    }

    /// Versions that can be put in force again, the latest first.
    pub(crate) fn versions(&self) -> Vec<String> {
        let publisher = self.publisher();
        let version = |c: &Arc<Calibration>| c.version.clone().unwrap_or_else(|| SHIPPED.into());
        publisher.versions.iter().map(version).collect()
    }
}

/// Versions as they are kept beside the calibrations themselves.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Versions {
    /// The one in force, then those before it.
    #[serde(skip)]
    pub(crate) calibrations: Vec<Calibration>,
    started_with: Option<Calibration>,
    base: Option<Calibration>,
    number: u64,
    rolled_back: bool,
}

/// Waits until the server is on its way out.
pub(crate) async fn told(draining: &mut watch::Receiver<bool>) {
    if draining.wait_for(|draining| *draining).await.is_err() {
        std::future::pending::<()>().await;
    }
}
