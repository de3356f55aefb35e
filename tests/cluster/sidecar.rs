//! The built program, as a user starts it.

use super::apiserver::{ApiServer, free_port};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use stepcast::protocol::v1;
use stepcast::protocol::v1::inventory_client::InventoryClient;
use stepcast::protocol::v1::predictor_client::PredictorClient;
use tonic::transport::{Channel, Endpoint};

pub(crate) struct Sidecar {
    process: Child,
    channel: Channel,
    metrics: u16,
    log: PathBuf,
}

impl Sidecar {
    pub(crate) async fn start(api: &ApiServer) -> Self {
        let (grpc, metrics) = (free_port(), free_port());
        let log = api.folder.join(format!("sidecar-{grpc}.log"));
        let process = Command::new(env!("CARGO_BIN_EXE_stepcast"))
            .args(["serve", "--kube", "--log-format", "json"])
            .args(["--listen", &format!("127.0.0.1:{grpc}")])
            .args(["--metrics", &format!("127.0.0.1:{metrics}")])
            .env("KUBECONFIG", api.kubeconfig())
            .stderr(Stdio::from(std::fs::File::create(&log).expect("a log")))
            .spawn()
            .expect("the program");
        let endpoint =
            Endpoint::from_shared(format!("http://127.0.0.1:{grpc}")).expect("an address");
        let mut channel = None;
        for _ in 0..200 {
            if let Ok(connected) = endpoint.connect().await {
                channel = Some(connected);
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Self {
            process,
            channel: channel.expect("it listens"),
            metrics,
            log,
        }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn inventory(&self) -> InventoryClient<Channel> {
        InventoryClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX)
    }

    pub(crate) async fn list(&self) -> v1::ListNodesResponse {
        let request = v1::ListNodesRequest::default();
        self.inventory()
            .list_nodes(request)
            .await
            .expect("a list")
            .into_inner()
    }

    /// All nodes; a few hundred at most.
    pub(crate) async fn nodes(&self) -> Vec<v1::InventoryNode> {
        self.list().await.nodes
    }

    /// How many nodes there are, by the metric.
    pub(crate) async fn count(&self) -> usize {
        let page = self.page("/metrics").await.1;
        page.lines()
            .filter(|l| l.starts_with("stepcast_inventory_nodes{"))
            .filter_map(|l| l.rsplit(' ').next()?.parse::<usize>().ok())
            .sum()
    }

    /// How many nodes a selector means.
    pub(crate) async fn select(&self, selector: &str) -> usize {
        let request = v1::ListNodesRequest {
            label_selector: selector.into(),
            ..v1::ListNodesRequest::default()
        };
        self.inventory()
            .list_nodes(request)
            .await
            .expect("a list")
            .into_inner()
            .nodes
            .len()
    }

    pub(crate) async fn predict(
        &self,
        request: v1::PredictRequest,
    ) -> Result<v1::Prediction, tonic::Status> {
        let answer = PredictorClient::new(self.channel.clone())
            .predict(request)
            .await?;
        Ok(answer.into_inner().prediction.expect("a prediction"))
    }

    pub(crate) async fn recommend(&self, job: v1::Job) -> v1::RecommendResponse {
        let request = v1::RecommendRequest {
            job: Some(job),
            ..v1::RecommendRequest::default()
        };
        let mut client = PredictorClient::new(self.channel.clone());
        client
            .recommend(request)
            .await
            .expect("a recommendation")
            .into_inner()
    }

    async fn page(&self, path: &str) -> (u16, String) {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let Ok(mut stream) = tokio::net::TcpStream::connect(("127.0.0.1", self.metrics)).await
        else {
            return (0, String::new());
        };
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let mut text = String::new();
        if stream.write_all(request.as_bytes()).await.is_err()
            || stream.read_to_string(&mut text).await.is_err()
        {
            return (0, String::new());
        }
        let code = text
            .split(' ')
            .nth(1)
            .and_then(|c| c.parse().ok())
            .unwrap_or(0);
        let body = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        (code, body.unwrap_or_default())
    }

    pub(crate) async fn ready(&self) -> u16 {
        self.page("/readyz").await.0
    }

    /// The first value of a metric.
    pub(crate) async fn metric(&self, name: &str) -> Option<f64> {
        let page = self.page("/metrics").await.1;
        let line = page.lines().find(|l| l.starts_with(name))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    pub(crate) fn rss_mib(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        let status = status.expect("a process");
        let line = status
            .lines()
            .find(|l| l.starts_with("VmRSS:"))
            .expect("a size");
        let kib: f64 = line
            .split_whitespace()
            .nth(1)
            .and_then(|n| n.parse().ok())
            .expect("a number");
        kib / 1024.0
    }

    fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        let _ = Command::new("kill").args(["-s", name, &id]).status();
    }

    pub(crate) fn pause(&self) {
        self.signal("STOP");
    }

    pub(crate) fn resume(&self) {
        self.signal("CONT");
    }

    /// Ends as Kubernetes would end it: it must go by itself.
    pub(crate) async fn stop(mut self) {
        self.signal("TERM");
        for _ in 0..300 {
            if let Ok(Some(status)) = self.process.try_wait() {
                assert!(status.success(), "{status}");
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("it did not drain");
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
