//! `stepcast.v1.Inventory`.

use super::super::reply;
use super::super::state::told;
use super::super::status::{bad_fields, leaving, overloaded};
use super::Handlers;
use crate::cluster::{Cluster, Node, Selector};
use crate::protocol::v1::inventory_server::Inventory;
use crate::protocol::v1::{self, ListNodesRequest, ListNodesResponse};
use futures::Stream;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tonic::{Request, Response, Status};

/// How soon to try again when all watches are taken.
const RETRY: Duration = Duration::from_secs(1);

/// Nodes of one page, and of one message of a watch.
const PAGE: usize = 1000;

#[tonic::async_trait]
impl Inventory for Handlers {
    async fn list_nodes(
        &self,
        request: Request<ListNodesRequest>,
    ) -> Result<Response<ListNodesResponse>, Status> {
        self.access
            .reading(&request, "Inventory/ListNodes", &self.state.metrics)?;
        let message = request.into_inner();
        let selector = selector(&message.label_selector)?;
        let snapshot = self.state.snapshot();
        let size = match message.page_size as usize {
            0 => PAGE,
            size => size.min(PAGE),
        };
        let after = |node: &&Arc<Node>| node.name.as_str() > message.page_token.as_str();
        let mut sorted: Vec<&Arc<Node>> = snapshot
            .cluster
            .nodes
            .iter()
            .filter(|n| selector.matches(n))
            .filter(after)
            .collect();
        sorted.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let more = sorted.len() > size;
        sorted.truncate(size);
        let next = sorted.last().filter(|_| more).map(|n| n.name.clone());
        Ok(Response::new(ListNodesResponse {
            nodes: sorted.into_iter().map(|n| reply::node(n)).collect(),
            next_page_token: next.unwrap_or_default(),
            synced: self.state.is_in_touch(),
            warnings: snapshot.cluster.warnings.clone(),
        }))
    }

    type WatchNodesStream =
        Pin<Box<dyn Stream<Item = Result<v1::WatchNodesResponse, Status>> + Send>>;

    async fn watch_nodes(
        &self,
        request: Request<v1::WatchNodesRequest>,
    ) -> Result<Response<Self::WatchNodesStream>, Status> {
        self.access
            .reading(&request, "Inventory/WatchNodes", &self.state.metrics)?;
        let selector = selector(&request.get_ref().label_selector)?;
        let state = Arc::clone(&self.state);
        let permit = Arc::clone(&state.watches)
            .try_acquire_owned()
            .map_err(|_| overloaded(RETRY))?;
        let (sender, receiver) = tokio::sync::mpsc::channel(4);
        tokio::spawn(async move {
            let _permit = permit;
            let mut published = state.published.subscribe();
            let mut draining = state.draining.subscribe();
            let mut sent: Option<HashMap<String, Arc<Node>>> = None;
            loop {
                published.borrow_and_update();
                // Until all nodes were seen once, there is nothing to send.
                if state.is_synced() {
                    let cluster = Arc::clone(&state.snapshot().cluster);
                    for message in changes(&cluster, &selector, &mut sent) {
                        if sender.send(Ok(message)).await.is_err() {
                            return;
                        }
                    }
                }
                tokio::select! {
                    changed = published.changed() => if changed.is_err() {
                        return;
                    },
                    () = sender.closed() => return,
                    () = told(&mut draining) => {
                        let _ = sender.send(Err(leaving())).await;
                        return;
                    }
                }
            }
        });
        let stream = tokio_stream::wrappers::ReceiverStream::new(receiver);
        Ok(Response::new(Box::pin(stream)))
    }
}

fn selector(text: &str) -> Result<Selector, Status> {
    text.parse()
        .map_err(|why| bad_fields(vec![("label_selector".into(), why)]))
}

/// What differs from what was sent, in messages of a bearable size.
fn changes(
    cluster: &Cluster,
    selector: &Selector,
    sent: &mut Option<HashMap<String, Arc<Node>>>,
) -> Vec<v1::WatchNodesResponse> {
    let first = sent.is_none();
    let before = sent.take().unwrap_or_default();
    let mut changed = Vec::new();
    let mut now = HashMap::with_capacity(before.len());
    for node in cluster.nodes.iter().filter(|n| selector.matches(n)) {
        let same = |before: &Arc<Node>| Arc::ptr_eq(before, node) || **before == **node;
        if !before.get(&node.name).is_some_and(same) {
            changed.push(reply::node(node));
        }
        now.insert(node.name.clone(), Arc::clone(node));
    }
    let gone = |name: &&String| !now.contains_key(*name);
    let removed: Vec<String> = before.keys().filter(gone).cloned().collect();
    *sent = Some(now);
    if changed.is_empty() && removed.is_empty() && !first {
        return Vec::new();
    }
    let mut messages: Vec<v1::WatchNodesResponse> = Vec::new();
    let mut rest = changed.into_iter().peekable();
    while rest.peek().is_some() {
        messages.push(v1::WatchNodesResponse {
            changed: rest.by_ref().take(PAGE).collect(),
            removed: Vec::new(),
            complete: false,
        });
    }
    if messages.is_empty() {
        messages.push(v1::WatchNodesResponse::default());
    }
    if let Some(last) = messages.last_mut() {
        last.removed = removed;
        last.complete = true;
    }
    messages
}
