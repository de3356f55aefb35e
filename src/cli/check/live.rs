//! The cluster and the calibration of a running sidecar.

use crate::calibration::Calibration;
use crate::causes::causes;
use crate::cli::files::Failure;
use crate::cluster::{Cluster, ClusterFile, Defaults};
use crate::protocol::v1::calibration_client::CalibrationClient;
use crate::protocol::v1::inventory_client::InventoryClient;
use crate::protocol::v1::{GetRequest, InventoryNode, ListNodesRequest, Node};
use crate::serve::nodes_tree;
use std::time::Duration;
use tonic::transport::Channel;

/// How long the sidecar may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a sidecar knows: its usable nodes, and what it has learnt.
pub(super) fn read(address: &str, defaults: &Defaults) -> Result<(Cluster, Calibration), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let asked = runtime.block_on(async { tokio::time::timeout(PATIENCE, ask(address)).await });
    let (nodes, file) = asked.map_err(|_| format!("--server {address}: no answer in time"))??;
    let tree = nodes_tree(&nodes);
    let file_of = ClusterFile {
        name: address,
        text: "",
    };
    let cluster = file_of.read_tree(&tree, defaults)?;
    let calibration: Calibration =
        crate::input::parse(&file).map_err(|e| format!("--server {address}: calibration: {e}"))?;
    Ok((cluster, calibration))
}

async fn ask(address: &str) -> Result<(Vec<Node>, String), String> {
    let wrong = |what: &dyn std::fmt::Display| format!("--server {address}: {what}");
    let url = if address.contains("://") {
        address.to_owned()
    } else {
        format!("http://{address}")
    };
    let endpoint = Channel::from_shared(url).map_err(|e| wrong(&e))?;
    let connected = endpoint.connect().await;
    let channel = connected.map_err(|e| wrong(&causes(&e)))?;
    let mut inventory = InventoryClient::new(channel.clone()).max_decoding_message_size(usize::MAX);
    let mut nodes = Vec::new();
    let mut page = ListNodesRequest::default();
    loop {
        let answer = inventory.list_nodes(page.clone()).await;
        let answer = answer.map_err(|e| wrong(&e.message()))?.into_inner();
        let usable = answer.nodes.iter().filter(|n| n.unusable.is_empty());
        nodes.extend(usable.map(brought));
        if answer.next_page_token.is_empty() {
            break;
        }
        page.page_token = answer.next_page_token;
    }
    let mut calibration = CalibrationClient::new(channel);
    let learnt = calibration.get(GetRequest {}).await;
    let learnt = learnt.map_err(|e| wrong(&e.message()))?.into_inner();
    Ok((nodes, learnt.file))
}

/// A node of the inventory as a caller would bring it.
fn brought(node: &InventoryNode) -> Node {
    Node {
        name: node.name.clone(),
        role: node.role,
        accelerator_type: node.accelerator_type.clone(),
        accelerator_count: node.accelerator_count,
        cpu_type: node.cpu_type.clone(),
        nic_gbps: node.nic_gbps,
        transport: node.transport,
        price_per_hour: node.price_per_hour.unwrap_or_default(),
        zone: node.zone.clone(),
        rack: node.rack.clone(),
        ..Node::default()
    }
}
