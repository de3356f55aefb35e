//! Nodes and pods with only what is needed of them, so that a large cluster
//! costs little to read and less to keep.

use crate::cluster::NodeObject;
use crate::gang::{ACCELERATORS, Member};
use crate::inventory::Holding;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::collections::BTreeMap;

macro_rules! core_v1 {
    ($type:ty, $kind:literal, $plural:literal, $scope:ty) => {
        impl Resource for $type {
            type DynamicType = ();
            type Scope = $scope;

            fn kind((): &()) -> Cow<'_, str> {
                $kind.into()
            }

            fn group((): &()) -> Cow<'_, str> {
                "".into()
            }

            fn version((): &()) -> Cow<'_, str> {
                "v1".into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

/// A node: what the resolver reads, and its version for the watch.
#[derive(Clone, Debug)]
pub(super) struct NodeResource {
    pub(super) metadata: ObjectMeta,
    pub(super) object: NodeObject,
}

core_v1!(NodeResource, "Node", "nodes", ClusterResourceScope);

impl<'de> Deserialize<'de> for NodeResource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = NodeObject::deserialize(deserializer)?;
        Ok(Self {
            metadata: ObjectMeta {
                name: Some(object.metadata.name.clone()),
                resource_version: object.metadata.resource_version.clone(),
                ..ObjectMeta::default()
            },
            object,
        })
    }
}

/// A pod: where it runs and which accelerators it holds.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PodResource {
    #[serde(deserialize_with = "slim")]
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

core_v1!(PodResource, "Pod", "pods", NamespaceResourceScope);

/// The key under which the gang of a pod is kept in its slim metadata.
const GANG: &str = "gang";

/// Metadata with the bulk left out; of labels and owners only what says with
/// whom the pod trains, where it says so.
fn slim<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Slim {
        name: Option<String>,
        namespace: Option<String>,
        resource_version: Option<String>,
        #[serde(default)]
        labels: serde_json::Value,
        #[serde(default)]
        annotations: serde_json::Value,
        #[serde(default)]
        owner_references: serde_json::Value,
    }
    let slim = Slim::deserialize(deserializer)?;
    let metadata = serde_json::json!({"metadata": {
        "name": slim.name,
        "namespace": slim.namespace,
        "labels": slim.labels,
        "annotations": slim.annotations,
        "ownerReferences": slim.owner_references,
    }});
    let gang = Member::gang_of(&metadata);
    Ok(ObjectMeta {
        name: slim.name,
        namespace: slim.namespace,
        resource_version: slim.resource_version,
        labels: gang.map(|gang| BTreeMap::from([(GANG.to_owned(), gang)])),
        ..ObjectMeta::default()
    })
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: Option<String>,
    containers: Vec<Container>,
    init_containers: Option<Vec<Container>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Container {
    resources: Resources,
    restart_policy: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Resources {
    limits: Option<BTreeMap<String, serde_json::Value>>,
    requests: Option<BTreeMap<String, serde_json::Value>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PodStatus {
    phase: Option<String>,
}

impl Container {
    fn accelerators(&self) -> u32 {
        let amount = |resources: &Option<BTreeMap<String, serde_json::Value>>| -> u32 {
            let Some(resources) = resources else {
                return 0;
            };
            ACCELERATORS
                .iter()
                .filter_map(|name| resources.get(*name))
                .filter_map(|value| match value {
                    serde_json::Value::String(text) => text.parse::<u32>().ok(),
                    other => other.as_u64().map(|n| n.min(1024) as u32),
                })
                .map(|n| n.min(1024))
                .sum()
        };
        amount(&self.resources.limits).max(amount(&self.resources.requests))
    }
}

impl PodResource {
    /// Its name among all pods.
    pub(super) fn key(&self) -> String {
        let name = self.metadata.name.as_deref().unwrap_or_default();
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        format!("{namespace}/{name}")
    }

    /// The gang that it trains with, where it says so.
    pub(super) fn gang(&self) -> Option<&str> {
        let labels = self.metadata.labels.as_ref()?;
        labels.get(GANG).map(String::as_str)
    }

    /// Whether it has ended.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed"))
    }

    /// Where it runs, unless it is over.
    pub(super) fn node(&self) -> Option<&str> {
        let node = self.spec.node_name.as_deref();
        node.filter(|n| !n.is_empty() && !self.is_over())
    }

    /// What it holds; nothing where it is not placed, over, or without
    /// accelerators.
    pub(super) fn holding(&self) -> Option<Holding> {
        let node = self.node()?.to_owned();
        let running: u32 = self
            .spec
            .containers
            .iter()
            .map(Container::accelerators)
            .sum();
        // Sidecars run on; other init containers are over by then.
        let (sidecars, starting): (Vec<&Container>, Vec<&Container>) = self
            .spec
            .init_containers
            .iter()
            .flatten()
            .partition(|c| c.restart_policy.as_deref() == Some("Always"));
        let beside: u32 = sidecars.iter().map(|c| c.accelerators()).sum();
        let first = starting.iter().map(|c| c.accelerators()).max();
        let accelerators = beside + running.max(first.unwrap_or(0));
        (accelerators > 0).then_some(Holding { node, accelerators })
    }
}
