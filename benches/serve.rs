//! The sidecar under load: `Predict` against an empty unary call of the same
//! server, by the same client, in the same run; batches and streams.
#![allow(clippy::print_stdout, reason = "a bench prints")]
#![allow(missing_docs, reason = "a bench has no reader but its output")]

use std::fmt::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use stepcast::cluster::{Cluster, ClusterFile, Defaults};
use stepcast::protocol::v1;
use stepcast::protocol::v1::predictor_client::PredictorClient;
use stepcast::serve::testing::Sidecar;
use tonic::transport::{Channel, Endpoint};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Calls at a time.
const CALLERS: usize = 64;
/// How long each measurement takes.
const WINDOW: Duration = Duration::from_millis(1500);

fn cluster(nodes: usize) -> Cluster {
    let types = ["Tesla-V100-SXM2-16GB", "NVIDIA-A100-SXM4-40GB", "NVIDIA-L4"];
    let mut text = String::from("nodes:\n");
    for i in 0..nodes {
        let (device, nic) = (types[i % 3], [25, 100][i / 3 % 2]);
        let _ = writeln!(
            text,
            "- {{name: node-{i:04}, accelerators: {{type: {device}, count: 8}}, nic_gbps: {nic}}}"
        );
    }
    let file = ClusterFile {
        name: "bench",
        text: &text,
    };
    file.read(&Defaults::default()).expect("a cluster")
}

fn job() -> v1::Job {
    v1::Job {
        workload: Some(v1::Workload {
            description: Some(v1::workload::Description::CatalogueName("resnet50".into())),
            sequence_length: 0,
        }),
        batch: Some(v1::job::Batch::BatchSize(32)),
        strategy: Some(v1::Strategy {
            kind: Some(v1::strategy::Kind::AllReduce(v1::AllReduce::default())),
        }),
        ..v1::Job::default()
    }
}

/// Eight nodes, others for every number.
fn set(number: usize) -> v1::NodeSet {
    let name = |i: usize| {
        format!(
            "node-{:04}",
            (number * 7 + i * 13 * (1 + number % 11)) % 5000
        )
    };
    let mut names: Vec<String> = (0..8).map(name).collect();
    names.sort_unstable();
    names.dedup();
    v1::NodeSet {
        names,
        ..v1::NodeSet::default()
    }
}

async fn connect(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}"))
        .expect("an address")
        .tcp_nodelay(true)
        .initial_connection_window_size(8 << 20)
        .initial_stream_window_size(4 << 20)
        .connect()
        .await
        .expect("a connection")
}

/// Questions are made beforehand: making one is the asker's own time.
fn questions(caller: usize, same: bool) -> Vec<v1::PredictRequest> {
    /// More than one caller asks in a window.
    const ENOUGH: usize = 1500;
    let request = |i: usize| v1::PredictRequest {
        job: Some(job()),
        nodes: Some(set(if same { 3 } else { caller + i * CALLERS })),
        ..v1::PredictRequest::default()
    };
    (0..ENOUGH).map(request).collect()
}

async fn empty(channel: Channel, _: v1::PredictRequest) {
    let mut client = v1::observations_client::ObservationsClient::new(channel);
    client
        .list_jobs(v1::ListJobsRequest {})
        .await
        .expect("an answer");
}

async fn predict(channel: Channel, request: v1::PredictRequest) {
    PredictorClient::new(channel)
        .predict(request)
        .await
        .expect("an answer");
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let sidecar = Sidecar::new(cluster(5000));
        let address = sidecar.on_tcp().await.expect("a port");
        let mut channels = Vec::new();
        for _ in 0..4 {
            channels.push(connect(address).await);
        }
        unary(&channels).await;
        batches(&channels[0]).await;
        streams(&channels[0]).await;
    });
}

/// Calls a second, and the slowest of a hundred.
macro_rules! load {
    ($channels:expr, $same:expr, $call:path) => {{
        let asked: Vec<_> = (0..CALLERS).map(|c| questions(c, $same)).collect();
        let start = Instant::now();
        let tasks: Vec<_> = asked
            .into_iter()
            .enumerate()
            .map(|(caller, asked)| {
                let channel = $channels[caller % $channels.len()].clone();
                tokio::spawn(async move {
                    let mut times = Vec::with_capacity(asked.len());
                    for request in asked {
                        if start.elapsed() >= WINDOW {
                            break;
                        }
                        let begin = Instant::now();
                        $call(channel.clone(), request).await;
                        times.push((begin.elapsed(), start.elapsed()));
                    }
                    times
                })
            })
            .collect();
        let all = futures::future::join_all(tasks).await;
        let mut times: Vec<(Duration, Duration)> = all.into_iter().flatten().flatten().collect();
        let end = times.iter().map(|t| t.1).max().unwrap_or(WINDOW);
        times.sort_unstable();
        let rate = times.len() as f64 / end.as_secs_f64();
        (rate, times[times.len() * 99 / 100].0)
    }};
}

/// In turn, five times: the median of the ratios.
async fn unary(channels: &[Channel]) {
    println!("64 calls at a time, 5,000 nodes, client and server on the same cores");
    let mut ratios: [Vec<(f64, f64)>; 2] = [Vec::new(), Vec::new()];
    for _ in 0..5 {
        let (base, base_slow) = load!(channels, true, empty);
        println!("  empty unary call               {base:>7.0} calls/s, p99 {base_slow:?}");
        for (kind, name) in ["the same 8 nodes", "other nodes each time"]
            .into_iter()
            .enumerate()
        {
            let (rate, slow) = load!(channels, kind == 0, predict);
            let longer = slow.as_secs_f64() / base_slow.as_secs_f64();
            println!("  Predict, {name:<21} {rate:>7.0} calls/s, p99 {slow:?}");
            ratios[kind].push((rate / base, longer));
        }
    }
    for (ratios, name) in ratios.iter_mut().zip(["the same set", "others"]) {
        let middle = ratios.len() / 2;
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        let share = ratios[middle].0;
        ratios.sort_by(|a, b| a.1.total_cmp(&b.1));
        let longer = ratios[middle].1;
        println!(
            "Predict, {name}: {share:.2} × the empty call's throughput (at least 0.8), p99 {longer:.2} × (at most 1.5)"
        );
    }
}

async fn batches(channel: &Channel) {
    const SETS: usize = 10_000;
    let request = v1::PredictBatchRequest {
        job: Some(job()),
        sets: (0..SETS).map(set).collect(),
        model: String::new(),
    };
    let mut best = 0.0_f64;
    for _ in 0..5 {
        let start = Instant::now();
        // Two at a time: one is coded while the other is answered.
        let ask = || {
            let mut client =
                PredictorClient::new(channel.clone()).max_decoding_message_size(usize::MAX);
            let request = request.clone();
            tokio::spawn(async move {
                client
                    .predict_batch(request)
                    .await
                    .expect("scores")
                    .into_inner()
                    .scores
                    .len()
            })
        };
        let mut scored = 0;
        for _ in 0..5 {
            let (a, b) = (ask(), ask());
            scored += a.await.expect("scores") + b.await.expect("scores");
        }
        best = best.max(scored as f64 / start.elapsed().as_secs_f64());
    }
    println!("PredictBatch, {SETS} sets of 8 nodes: {best:.0} predictions/s (at least 500,000)");
}

async fn streams(channel: &Channel) {
    const SETS: usize = 1000;
    let mut best = 0.0_f64;
    for _ in 0..5 {
        let messages = (0..100).map(|i| v1::PredictStreamRequest {
            id: i as u64,
            job: (i == 0).then(job),
            sets: (0..SETS).map(|s| set(i * SETS + s)).collect(),
            model: String::new(),
        });
        // Made beforehand: what is measured is the stream.
        let messages: Vec<_> = messages.collect();
        let start = Instant::now();
        let mut client =
            PredictorClient::new(channel.clone()).max_decoding_message_size(usize::MAX);
        let stream = client
            .predict_stream(tokio_stream::iter(messages))
            .await
            .expect("a stream");
        let mut stream = stream.into_inner();
        let mut scored = 0;
        while let Some(answer) = stream.message().await.expect("scores") {
            scored += answer.scores.len();
        }
        best = best.max(scored as f64 / start.elapsed().as_secs_f64());
    }
    println!(
        "PredictStream, 100 messages of {SETS} sets: {best:.0} predictions/s (at least 500,000)"
    );
}
