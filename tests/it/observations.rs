//! The built sidecar keeps what it acknowledged, however it ends.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use stepcast::protocol::v1::calibration_client::CalibrationClient;
use stepcast::protocol::v1::observations_client::ObservationsClient;
use stepcast::protocol::v1::{
    GetRequest, Job, ListJobsRequest, ObservedJob, RecalibrateRequest, ReportStepsRequest,
    RollbackRequest,
};
use tonic::transport::Channel;

/// A process that dies with the test.
struct Sidecar {
    process: Child,
    port: u16,
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const CLUSTER: &str = "nodes: [{name: n, count: 4, cpu: {type: lab-xeon-1t}, nic_gbps: 10}]";
const JOB: &str = "{workload: resnet50, batch_size: 4, strategy: {all_reduce: {algorithm: ring, fusion: {buffer_mib: 25}}}}";

const TOKEN: &str = "let-me-in";

/// A request by someone who may change things.
fn allowed<T>(message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    let token = format!("Bearer {TOKEN}").parse().expect("a header");
    request.metadata_mut().insert("authorization", token);
    request
}

fn free_port() -> u16 {
    let socket = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    socket.local_addr().expect("an address").port()
}

impl Sidecar {
    fn start(folder: &Path, more: &[&str]) -> Self {
        let cluster = folder.join("cluster.yaml");
        std::fs::write(&cluster, CLUSTER).expect("a cluster");
        let tokens = folder.join("tokens");
        std::fs::write(&tokens, TOKEN).expect("a token");
        let port = free_port();
        let process = Command::new(env!("CARGO_BIN_EXE_stepcast"))
            .args(["serve", "--listen", &format!("127.0.0.1:{port}")])
            .args(["--metrics", "127.0.0.1:0", "--log-level", "error"])
            .args(["--cluster", &cluster.display().to_string()])
            .args(["--data-dir", &folder.join("data").display().to_string()])
            .args(["--token-file", &tokens.display().to_string()])
            .args(more)
            .stderr(Stdio::null())
            .spawn()
            .expect("the program");
        Self { process, port }
    }

    async fn channel(&self) -> Channel {
        let address = format!("http://127.0.0.1:{}", self.port);
        for _ in 0..400 {
            let endpoint = Channel::from_shared(address.clone()).expect("an address");
            if let Ok(channel) = endpoint.connect().await {
                return channel;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("no sidecar");
    }
}

fn report(first_step: u64, step_seconds: Vec<f64>) -> ReportStepsRequest {
    ReportStepsRequest {
        job_id: "job".into(),
        job: Some(Job {
            file: JOB.into(),
            ..Job::default()
        }),
        nodes: ["n-0", "n-1", "n-2", "n-3"].map(String::from).to_vec(),
        step_seconds,
        first_step,
        ..ReportStepsRequest::default()
    }
}

async fn send(channel: &Channel, report: ReportStepsRequest) -> Result<u64, tonic::Status> {
    let mut client = ObservationsClient::new(channel.clone());
    let answer = client
        .report_steps(allowed(tokio_stream::iter([report])))
        .await?;
    Ok(answer.into_inner().accepted_steps)
}

async fn listed(channel: &Channel) -> Option<ObservedJob> {
    let mut client = ObservationsClient::new(channel.clone());
    let jobs = client.list_jobs(ListJobsRequest {}).await.expect("jobs");
    jobs.into_inner().jobs.into_iter().next()
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("stepcast-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Killed again and again while reports come in, nothing acknowledged is
/// lost and nothing is counted twice.
#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_moment_it_loses_nothing_acknowledged() {
    const ROUNDS: u64 = 25;
    const STEPS: u64 = 3;
    let folder = folder("killed");
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        let mut sidecar = Sidecar::start(&folder, &[]);
        let channel = sidecar.channel().await;
        let kept = listed(&channel).await.map_or(0, |job| job.steps);
        assert!(kept >= acknowledged, "{kept} kept of {acknowledged}");
        // The last report may have been kept without an answer.
        assert!(kept <= acknowledged + STEPS, "{kept} of {acknowledged}");
        let delay = Duration::from_micros(500 + 7919 * round % 60_000);
        let killer = tokio::task::spawn_blocking(move || {
            std::thread::sleep(delay);
            let _ = sidecar.process.kill();
            let _ = sidecar.process.wait();
        });
        while let Ok(new) = send(&channel, report(acknowledged + 1, vec![0.5; 3])).await {
            assert!(new == STEPS || new == 0, "{new} of a report of {STEPS}");
            acknowledged += STEPS;
        }
        killer.await.expect("killed");
    }
    println!("{ROUNDS} times killed, {acknowledged} steps acknowledged");
    assert!(acknowledged > 0);
    let sidecar = Sidecar::start(&folder, &[]);
    let channel = sidecar.channel().await;
    let last = send(&channel, report(acknowledged + 1, vec![0.5; 3])).await;
    assert!(last.is_ok());
    let job = listed(&channel).await.expect("the job");
    assert_eq!(job.steps, acknowledged + STEPS);
    drop(sidecar);
    std::fs::remove_dir_all(&folder).expect("removed");
}

/// What was learnt goes on after a restart, and can be taken back.
#[tokio::test(flavor = "multi_thread")]
async fn a_calibration_outlives_the_process_and_is_rolled_back() {
    let folder = folder("learnt");
    let version = {
        let sidecar = Sidecar::start(&folder, &["--no-recalibrate"]);
        let channel = sidecar.channel().await;
        // Twice as slow as predicted, for long enough.
        send(&channel, report(1, vec![0.1; 5]))
            .await
            .expect("taken");
        let predicted = listed(&channel)
            .await
            .expect("a job")
            .predicted_step_seconds;
        let slow = vec![2.0 * predicted; 400];
        send(&channel, report(6, slow)).await.expect("taken");
        let before = listed(&channel).await.expect("a job");
        assert!((before.error_ratio + 0.5).abs() < 0.01, "{before:?}");
        let mut client = CalibrationClient::new(channel.clone());
        let done = client
            .recalibrate(allowed(RecalibrateRequest {}))
            .await
            .expect("fitted");
        let done = done.into_inner();
        println!("{}", done.reason);
        assert!(done.changed, "{done:?}");
        assert!(
            done.after_error_ratio < 0.5 * done.before_error_ratio,
            "{done:?}"
        );
        let after = listed(&channel).await.expect("a job");
        assert!(after.error_ratio.abs() < 0.25, "{after:?}");
        done.version
    };
    let sidecar = Sidecar::start(&folder, &["--no-recalibrate"]);
    let channel = sidecar.channel().await;
    let mut client = CalibrationClient::new(channel.clone());
    let found = client.get(GetRequest {}).await.expect("a calibration");
    let found = found.into_inner();
    assert_eq!(found.version, version);
    assert!(found.file.contains("provenance"), "{}", found.file);
    assert_eq!(found.earlier_versions, ["shipped"]);
    assert!(listed(&channel).await.expect("a job").error_ratio.abs() < 0.25);
    client
        .rollback(allowed(RollbackRequest::default()))
        .await
        .expect("rolled back");
    assert!((listed(&channel).await.expect("a job").error_ratio + 0.5).abs() < 0.01);
    drop(sidecar);
    let sidecar = Sidecar::start(&folder, &["--no-recalibrate"]);
    let channel = sidecar.channel().await;
    let mut client = CalibrationClient::new(channel);
    let found = client.get(GetRequest {}).await.expect("a calibration");
    assert_eq!(found.into_inner().version, "", "the shipped one");
    drop(sidecar);
    std::fs::remove_dir_all(&folder).expect("removed");
}

/// A job that lies by ten and moves again and again counts as one job.
#[tokio::test(flavor = "multi_thread")]
async fn a_liar_that_moves_poisons_nobody() {
    let folder = folder("liar");
    let sidecar = Sidecar::start(&folder, &["--no-recalibrate"]);
    let channel = sidecar.channel().await;
    let of = |id: &str, network: &str, nodes: &[&str], seconds: f64| ReportStepsRequest {
        job_id: id.into(),
        job: Some(Job {
            file: JOB.replace("resnet50", network),
            ..Job::default()
        }),
        nodes: nodes.iter().map(|n| (*n).to_owned()).collect(),
        step_seconds: vec![seconds; 45],
        ..ReportStepsRequest::default()
    };
    let networks = [
        "resnet18",
        "resnet50",
        "vgg11",
        "alexnet",
        "googlenet",
        "mobilenet_v2",
    ];
    let mut predicted = Vec::new();
    for network in networks {
        send(&channel, of(network, network, &["n-0", "n-1"], 0.1))
            .await
            .expect("taken");
        let job = listed(&channel).await.expect("a job");
        predicted.push(job.predicted_step_seconds);
    }
    for (network, seconds) in networks.iter().zip(&predicted) {
        for _ in 0..2 {
            let honest = of(network, network, &["n-0", "n-1"], *seconds);
            send(&channel, honest).await.expect("taken");
        }
    }
    for round in 0..20 {
        let nodes: &[&str] = if round % 2 == 0 {
            &["n-2", "n-3"]
        } else {
            &["n-1", "n-2", "n-3"]
        };
        let lie = of("liar", "resnet50", nodes, 10.0 * predicted[1]);
        send(&channel, lie).await.expect("taken");
    }
    let mut client = CalibrationClient::new(channel.clone());
    let done = client.recalibrate(allowed(RecalibrateRequest {})).await;
    let done = done.expect("fitted").into_inner();
    println!("{} set aside: {:?}", done.reason, done.set_aside);
    let mut jobs = ObservationsClient::new(channel.clone());
    let jobs = jobs
        .list_jobs(ListJobsRequest {})
        .await
        .expect("jobs")
        .into_inner()
        .jobs;
    for job in jobs.iter().filter(|job| job.job_id != "liar") {
        println!("{}: {:+.1} %", job.job_id, job.error_ratio * 100.0);
        assert!(job.error_ratio.abs() < 0.15, "{job:?}");
    }
    drop(sidecar);
    std::fs::remove_dir_all(&folder).expect("removed");
}

/// A folder that another sidecar uses is refused; one that cannot be read is
/// set aside.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_in_use_is_refused_and_a_broken_one_set_aside() {
    let folder = folder("refused");
    let first = Sidecar::start(&folder, &[]);
    let _ = first.channel().await;
    let mut second = Sidecar::start(&folder, &[]);
    let status = tokio::task::spawn_blocking(move || second.process.wait());
    let status = status.await.expect("ended").expect("a status");
    assert_eq!(status.code(), Some(2));
    drop(first);
    let file = folder.join("data/observations.redb");
    std::fs::write(
        &file,
        b"this is no database, and it is long enough to be read as one",
    )
    .expect("written");
    let third = Sidecar::start(&folder, &[]);
    let channel = third.channel().await;
    assert!(listed(&channel).await.is_none());
    assert!(folder.join("data/observations.redb.unreadable").exists());
    drop(third);
    std::fs::remove_dir_all(&folder).expect("removed");
}
