//! What handlers share: the snapshot they read, and the way a new one takes
//! its place.

use super::config::Limits;
use super::metrics::Metrics;
use crate::calibration::Calibration;
use crate::cluster::{Cluster, Defaults, Links};
use crate::snapshot::{Snapshot, Snapshots};
use arc_swap::ArcSwap;
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
    imports: AtomicU64,
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
        synced: bool,
        (defaults, links): (Defaults, Links),
        limits: Limits,
        metrics: Metrics,
    ) -> Arc<Self> {
        let mut snapshots = Snapshots::default();
        let calibration = Arc::new(calibration);
        metrics.calibration(&calibration);
        let snapshot = snapshots.take(cluster, calibration, None);
        metrics.inventory(&snapshot.cluster);
        metrics.synced(synced);
        Arc::new(Self {
            snapshot: ArcSwap::from_pointee(snapshot),
            publisher: Mutex::new(Publisher {
                snapshots,
                versions: VecDeque::new(),
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
            imports: AtomicU64::new(0),
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

    /// A version that no import had before.
    pub(crate) fn new_version(&self) -> String {
        let number = self.imports.fetch_add(1, Ordering::Relaxed) + 1;
        format!("imported-{number}")
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

    /// Puts a calibration in force, and keeps the one before.
    pub(crate) fn import(&self, calibration: Calibration) {
        let mut publisher = self.publisher();
        let before = Arc::clone(&self.snapshot().calibration);
        publisher.versions.push_front(before);
        publisher.versions.truncate(MOST_VERSIONS);
        self.put_calibration(&mut publisher, Arc::new(calibration));
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
        self.put_calibration(&mut publisher, found);
        Some(name)
    }

    fn put_calibration(&self, publisher: &mut Publisher, calibration: Arc<Calibration>) {
        self.metrics.calibration(&calibration);
        let cluster = Cluster::clone(&self.snapshot().cluster);
        let next = publisher.snapshots.take(cluster, calibration, None);
        self.put(next);
    }

    /// Versions that can be put in force again, the latest first.
    pub(crate) fn versions(&self) -> Vec<String> {
        let publisher = self.publisher();
        let version = |c: &Arc<Calibration>| c.version.clone().unwrap_or_else(|| SHIPPED.into());
        publisher.versions.iter().map(version).collect()
    }
}

/// Waits until the server is on its way out.
pub(crate) async fn told(draining: &mut watch::Receiver<bool>) {
    if draining.wait_for(|draining| *draining).await.is_err() {
        std::future::pending::<()>().await;
    }
}
