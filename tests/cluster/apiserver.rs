//! A kube-apiserver and etcd of the test's own.

use super::assets;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) struct ApiServer {
    pub(crate) folder: PathBuf,
    client: Client,
}

/// A port that nothing listens on.
pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

impl ApiServer {
    pub(crate) async fn start(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("stepcast-{}-{name}", std::process::id()));
        let (port, etcd) = (free_port().to_string(), free_port().to_string());
        let server = Self {
            client: {
                tool(&folder, &["start"], &[&port, &etcd]);
                let file =
                    Kubeconfig::read_from(folder.join("admin.kubeconfig")).expect("a kubeconfig");
                let config =
                    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
                Client::try_from(config.expect("a config")).expect("a client")
            },
            folder,
        };
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
        let _ = server.post("/api/v1/namespaces", &namespace).await;
        server
    }

    /// Runs the project's script on this server.
    pub(crate) fn tool(&self, action: &[&str]) {
        tool(&self.folder, action, &[]);
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("sidecar.kubeconfig")
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(serde_json::to_vec(body).expect("JSON"))
            .expect("a request");
        self.client.request(request).await
    }

    async fn put(&self, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let request = http::Request::put(path)
            .header("content-type", "application/json")
            .body(serde_json::to_vec(body).expect("JSON"))
            .expect("a request");
        self.client.request(request).await
    }

    /// Lets the sidecar's user read these resources, and no others.
    pub(crate) async fn grant(&self, resources: &[&str]) {
        let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "sidecar"},
            "rules": [{"apiGroups": [""], "resources": resources, "verbs": ["get", "list", "watch"]}],
        });
        if self.post(roles, &role).await.is_err() {
            self.put(&format!("{roles}/sidecar"), &role)
                .await
                .expect("a role");
        }
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "sidecar"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "sidecar"},
            "subjects": [{"kind": "User", "name": "sidecar"}],
        });
        let _ = self
            .post(
                "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
                &binding,
            )
            .await;
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub(crate) async fn create(&self, node: &Value) {
        let node = serde_json::from_value(with_status(node.clone())).expect("a node");
        self.nodes()
            .create(&PostParams::default(), &node)
            .await
            .expect("created");
    }

    pub(crate) async fn create_many(&self, nodes: impl Iterator<Item = Value>) {
        futures::stream::iter(nodes)
            .for_each_concurrent(32, |node| async move { self.create(&node).await })
            .await;
    }

    pub(crate) async fn label(&self, name: &str, key: &str, value: &str) {
        self.patch(name, &json!({"metadata": {"labels": {key: value}}}))
            .await;
    }

    pub(crate) async fn label_many(&self, names: &[String], key: &str, value: &str) {
        futures::stream::iter(names)
            .for_each_concurrent(32, |name| self.label(name, key, value))
            .await;
    }

    pub(crate) async fn patch(&self, name: &str, patch: &Value) {
        let params = PatchParams::default();
        self.nodes()
            .patch(name, &params, &Patch::Merge(patch))
            .await
            .expect("patched");
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.nodes()
            .delete(name, &DeleteParams::default())
            .await
            .expect("deleted");
    }

    /// A pod on a node that holds accelerators.
    pub(crate) async fn pod(&self, name: &str, node: &str, gpus: u32, phase: &str) {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i",
                "resources": {"limits": {"nvidia.com/gpu": gpus.to_string()}}}]},
        });
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "default");
        let pod = serde_json::from_value(pod).expect("a pod");
        pods.create(&PostParams::default(), &pod)
            .await
            .expect("created");
        self.pod_phase(name, phase).await;
    }

    pub(crate) async fn pod_phase(&self, name: &str, phase: &str) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "default");
        let status = json!({"status": {"phase": phase}});
        let params = PatchParams::default();
        pods.patch_status(name, &params, &Patch::Merge(&status))
            .await
            .expect("patched");
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        tool(&self.folder, &["stop"], &[]);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn tool(folder: &Path, action: &[&str], rest: &[&str]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/apiserver.sh");
    let done = Command::new("bash")
        .arg(script)
        .args(action)
        .arg(folder)
        .args(rest)
        .env("KUBEBUILDER_ASSETS", assets().expect("assets"))
        .env("OWNER_PID", std::process::id().to_string())
        .output()
        .expect("bash");
    assert!(
        done.status.success(),
        "{action:?}: {}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
}

/// A node as GPU feature discovery labels it.
pub(crate) fn node(name: &str, product: &str, gpus: u32, nic: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
            "nvidia.com/gpu.product": product, "nvidia.com/gpu.count": gpus.to_string(),
            "nvidia.com/gpu.memory": "16384", "nvidia.com/gpu.family": "volta",
            "nvidia.com/cuda.driver.major": "550", "nvidia.com/mig.capable": "false",
            "feature.node.kubernetes.io/cpu-model.vendor_id": "Intel",
            "feature.node.kubernetes.io/cpu-model.family": "6",
            "feature.node.kubernetes.io/cpu-model.id": "85",
            "topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r",
            "stepcast.dev/nic-gbps": nic,
        }},
        "status": {"allocatable": {"nvidia.com/gpu": gpus.to_string(), "cpu": "96", "memory": "700Gi"}},
    })
}

/// The same, ready.
pub(crate) fn with_status(mut node: Value) -> Value {
    node["status"]["conditions"] = json!([{"type": "Ready", "status": "True",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
        "reason": "KubeletReady", "message": "ready"}]);
    node["status"]["capacity"] = node["status"]["allocatable"].clone();
    node
}
