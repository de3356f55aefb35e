//! The sidecar's handlers over a connection in memory.

use hyper_util::rt::TokioIo;
use stepcast::cluster::{Cluster, ClusterFile, Defaults};
use stepcast::protocol::v1;
use stepcast::protocol::v1::calibration_client::CalibrationClient;
use stepcast::protocol::v1::inventory_client::InventoryClient;
use stepcast::protocol::v1::observations_client::ObservationsClient;
use stepcast::protocol::v1::predictor_client::PredictorClient;
use stepcast::serve::testing::Sidecar;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_types::StatusExt;

pub(crate) const NODES: &str = "
nodes:
- {name: a, count: 4, accelerators: {type: Tesla-V100-SXM2-16GB, count: 4}, nic_gbps: 25, price_per_hour: 10}
- {name: b, count: 2, accelerators: {type: NVIDIA-L4, count: 1}, nic_gbps: 10, price_per_hour: 1}
- {name: s, role: server, nic_gbps: 100, price_per_hour: 1}
";

pub(crate) fn cluster(text: &str) -> Cluster {
    ClusterFile { name: "test", text }
        .read(&Defaults::default())
        .expect("a cluster")
}

pub(crate) async fn connect(sidecar: &Sidecar) -> Channel {
    let mut end = Some(sidecar.in_memory());
    Endpoint::from_static("http://memory")
        .connect_with_connector(tower_service_fn(move |_| {
            let end = end.take();
            async move {
                end.map(TokioIo::new)
                    .ok_or_else(|| std::io::Error::other("once"))
            }
        }))
        .await
        .expect("a connection")
}

/// A connector from a closure.
fn tower_service_fn<F, R>(connect: F) -> Connector<F>
where
    F: FnMut(http::Uri) -> R,
{
    Connector(connect)
}

struct Connector<F>(F);

impl<F, R, T> tower_service::Service<http::Uri> for Connector<F>
where
    F: FnMut(http::Uri) -> R,
    R: Future<Output = std::io::Result<T>>,
{
    type Response = T;
    type Error = std::io::Error;
    type Future = R;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: http::Uri) -> R {
        (self.0)(uri)
    }
}

pub(crate) fn named(workload: &str) -> v1::Workload {
    v1::Workload {
        description: Some(v1::workload::Description::CatalogueName(workload.into())),
        sequence_length: 0,
    }
}

pub(crate) fn job() -> v1::Job {
    v1::Job {
        workload: Some(named("resnet50")),
        batch: Some(v1::job::Batch::BatchSize(32)),
        strategy: Some(v1::Strategy {
            kind: Some(v1::strategy::Kind::AllReduce(v1::AllReduce::default())),
        }),
        ..v1::Job::default()
    }
}

pub(crate) fn set(names: &[&str]) -> v1::NodeSet {
    v1::NodeSet {
        names: names.iter().map(|n| (*n).to_owned()).collect(),
        ..v1::NodeSet::default()
    }
}

fn fields(status: &Status) -> Vec<String> {
    let details = status.get_details_bad_request().expect("fields");
    details
        .field_violations
        .into_iter()
        .map(|v| v.field)
        .collect()
}

fn reason(status: &Status) -> String {
    status.get_details_error_info().expect("a reason").reason
}

#[tokio::test]
async fn a_set_by_name_selector_or_brought_along() {
    let sidecar = Sidecar::new(cluster(NODES));
    let mut client = PredictorClient::new(connect(&sidecar).await);
    let mut ask = async |nodes: v1::NodeSet| {
        let request = v1::PredictRequest {
            job: Some(job()),
            nodes: Some(nodes),
            ..v1::PredictRequest::default()
        };
        let answer = client.predict(request).await.expect("an answer");
        answer.into_inner().prediction.expect("a prediction")
    };
    let named = ask(set(&["a-0", "a-1"])).await;
    assert_eq!(named.workers, 8);
    assert_eq!(named.baseline.as_ref().expect("a baseline").node, "a-0");
    let others = ask(set(&["a-3", "a-2"])).await;
    assert_eq!(
        others.baseline.as_ref().expect("a baseline").node,
        "a-3",
        "its own names"
    );
    assert_eq!(others.iteration_time_seconds, named.iteration_time_seconds);
    assert!(
        others.bottleneck.contains("a-3") || others.bottleneck.contains("a-2"),
        "{}",
        others.bottleneck
    );
    let own = ask(v1::NodeSet {
        nodes: vec![v1::Node {
            name: "mine".into(),
            accelerator_type: "Tesla-V100-SXM2-16GB".into(),
            accelerator_count: 8,
            nic_gbps: 25.0,
            ..v1::Node::default()
        }],
        ..v1::NodeSet::default()
    })
    .await;
    assert_eq!(own.workers, 8);
    let all = ask(v1::NodeSet::default()).await;
    assert_eq!(all.workers, 18);
    let part = ask(v1::NodeSet {
        workers: 3,
        ..set(&["a-0"])
    })
    .await;
    assert_eq!(part.workers, 3);
    let sum: f64 = named.breakdown.iter().map(|p| p.time_seconds).sum();
    assert!((sum / named.iteration_time_seconds - 1.0).abs() < 1e-9);
}

/// What the service says is what the command line's core says.
#[tokio::test]
async fn answers_are_the_cores_own() {
    use stepcast::calibration::Calibration;
    use stepcast::job::JobFile;
    use stepcast::model::{Query, predict};
    use stepcast::placement::Selection;
    let there = cluster(NODES);
    let sidecar = Sidecar::new(there.clone());
    let mut client = PredictorClient::new(connect(&sidecar).await);
    for text in [
        "{workload: resnet50, batch_size: 32, strategy: all_reduce}",
        "{workload: vgg16, global_batch_size: 70, strategy: {parameter_server: {sync: bsp, servers: 1}}}",
        "{workload: alexnet, batch_size: 16, strategy: {parameter_server: {sync: asp, servers: 1}}}",
        "{workload: resnet18, batch_size: 8, precision: amp, steps: 1000, strategy: async_all_reduce}",
    ] {
        for names in [
            vec!["a-0", "b-1"],
            vec!["b-0", "b-1", "a-2"],
            vec!["a-1", "a-3"],
        ] {
            let file = JobFile {
                name: "job",
                text,
                resolve: &|_| Err("no files".into()),
            };
            let job = file.read().expect("a job");
            let expected = predict(&Query {
                job: &job,
                cluster: &there,
                selection: &Selection {
                    nodes: Some(names.iter().map(|n| (*n).to_owned()).collect()),
                    workers: None,
                },
                model: None,
                baseline: None,
                calibration: Calibration::shipped(),
                simulation_events: None,
            })
            .expect("an answer");
            let request = v1::PredictRequest {
                job: Some(v1::Job {
                    file: text.into(),
                    ..v1::Job::default()
                }),
                nodes: Some(set(&names)),
                ..v1::PredictRequest::default()
            };
            // Twice: worked out, and remembered.
            for _ in 0..2 {
                let answer = client
                    .predict(request.clone())
                    .await
                    .expect("an answer")
                    .into_inner();
                let got = answer.prediction.expect("a prediction");
                assert_eq!(
                    got.iteration_time_seconds,
                    expected.step.time.get(),
                    "{text} {names:?}"
                );
                assert_eq!(got.speedup, expected.speedup);
                assert_eq!(got.bottleneck, expected.bottleneck);
                assert_eq!(
                    got.baseline.expect("a baseline").node,
                    expected.baseline.node
                );
                assert_eq!(got.warnings, expected.warnings);
            }
        }
    }
}

#[tokio::test]
async fn every_bad_field_is_named_at_once() {
    let sidecar = Sidecar::new(cluster(NODES));
    let mut client = PredictorClient::new(connect(&sidecar).await);
    let request = v1::PredictRequest {
        job: Some(v1::Job {
            workload: Some(named("resnet5")),
            batch: Some(v1::job::Batch::BatchSize(0)),
            precision: 77,
            ..v1::Job::default()
        }),
        nodes: Some(set(&["a-0", "a-9", "nobody"])),
        model: "guess".into(),
        ..v1::PredictRequest::default()
    };
    let status = client.predict(request).await.expect_err("bad fields");
    assert_eq!(status.code(), Code::InvalidArgument);
    let fields = fields(&status);
    for expected in [
        "model",
        "job.workload",
        "job.batch_size",
        "job.precision",
        "nodes.names[1]",
        "nodes.names[2]",
    ] {
        assert!(
            fields.iter().any(|f| f == expected),
            "{expected} is not in {fields:?}"
        );
    }
    let violations = status
        .get_details_bad_request()
        .expect("fields")
        .field_violations;
    let near = violations
        .iter()
        .find(|v| v.field == "nodes.names[1]")
        .expect("named");
    assert!(
        near.description.contains("did you mean a-"),
        "{}",
        near.description
    );
    let status = client
        .predict(v1::PredictRequest::default())
        .await
        .expect_err("no job");
    assert_eq!(self::fields(&status), ["job"]);
}

#[tokio::test]
async fn batches_and_streams_score_every_set() {
    let sidecar = Sidecar::new(cluster(NODES));
    let mut client = PredictorClient::new(connect(&sidecar).await);
    let sets = vec![
        set(&["a-0"]),
        set(&["a-0", "b-0"]),
        set(&["a-0", "gone"]),
        set(&["a-1", "a-1"]),
    ];
    let request = v1::PredictBatchRequest {
        job: Some(job()),
        sets: sets.clone(),
        model: String::new(),
    };
    let scores = client
        .predict_batch(request)
        .await
        .expect("scores")
        .into_inner()
        .scores;
    assert_eq!(scores.len(), 4);
    assert_eq!(scores[0].workers, 4);
    assert_eq!(scores[0].error, "");
    assert!(scores[1].iteration_time_seconds > scores[0].iteration_time_seconds);
    assert!(
        scores[2].error.contains("no node named `gone`"),
        "{}",
        scores[2].error
    );
    assert!(scores[3].error.contains("twice"), "{}", scores[3].error);
    let messages = vec![
        v1::PredictStreamRequest {
            id: 7,
            job: Some(job()),
            sets: sets[..2].to_vec(),
            model: String::new(),
        },
        v1::PredictStreamRequest {
            id: 8,
            sets: sets[..1].to_vec(),
            ..v1::PredictStreamRequest::default()
        },
    ];
    let stream = client
        .predict_stream(tokio_stream::iter(messages))
        .await
        .expect("a stream");
    let mut stream = stream.into_inner();
    let first = stream.message().await.expect("a message").expect("scores");
    assert_eq!((first.id, first.scores.as_slice()), (7, &scores[..2]));
    let second = stream.message().await.expect("a message").expect("scores");
    assert_eq!(
        (second.id, second.scores.as_slice()),
        (8, &scores[..1]),
        "the job goes on"
    );
    assert!(stream.message().await.expect("the end").is_none());
}

#[tokio::test]
async fn plans_are_made_and_impossible_ones_refused() {
    let sidecar = Sidecar::new(cluster(NODES));
    let mut client = PredictorClient::new(connect(&sidecar).await);
    let curve = client
        .curve(v1::CurveRequest {
            job: Some(job()),
            max_workers: 6,
            ..v1::CurveRequest::default()
        })
        .await
        .expect("a curve")
        .into_inner();
    assert_eq!(curve.points.len(), 6);
    let found = client
        .recommend(v1::RecommendRequest {
            job: Some(job()),
            max_workers: 8,
            ..v1::RecommendRequest::default()
        })
        .await
        .expect("a recommendation")
        .into_inner();
    assert!(
        found.nodes.iter().all(|n| n.starts_with("a-")),
        "{:?}",
        found.nodes
    );
    let status = client
        .recommend(v1::RecommendRequest {
            job: Some(job()),
            target_speedup: 1e6,
            ..v1::RecommendRequest::default()
        })
        .await
        .expect_err("out of reach");
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::FailedPrecondition, "NO_SUCH_PLAN")
    );
    let tuned = client
        .tune(v1::TuneRequest {
            job: Some(job()),
            ..v1::TuneRequest::default()
        })
        .await
        .expect("suggestions")
        .into_inner();
    assert!(!tuned.suggestions.is_empty());
}

#[tokio::test]
async fn limits_have_errors_of_their_own() {
    let sidecar = Sidecar::new(cluster(NODES));
    let mut client = PredictorClient::new(connect(&sidecar).await);
    let many: Vec<String> = (0..10_001).map(|i| format!("n{i}")).collect();
    let request = v1::PredictRequest {
        job: Some(job()),
        nodes: Some(v1::NodeSet {
            names: many,
            ..v1::NodeSet::default()
        }),
        ..v1::PredictRequest::default()
    };
    let status = client.predict(request).await.expect_err("too many");
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::ResourceExhausted, "TOO_MANY_NODES")
    );
    let request = v1::PredictBatchRequest {
        job: Some(job()),
        sets: vec![v1::NodeSet::default(); 100_001],
        model: String::new(),
    };
    let status = client.predict_batch(request).await.expect_err("too many");
    assert_eq!(reason(&status), "TOO_MANY_SETS");
    let request = v1::PredictRequest {
        job: Some(v1::Job {
            file: "x".repeat(5 << 20),
            ..v1::Job::default()
        }),
        ..v1::PredictRequest::default()
    };
    let status = client.predict(request).await.expect_err("too large");
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::ResourceExhausted, "MESSAGE_TOO_LARGE")
    );
    // A simulation that would take too long says so.
    let text = "{workload: resnet152, batch_size: 8, strategy: {parameter_server: {sync: asp}}}";
    let big = (0..2000).fold(
        String::from("nodes:\n- {name: s, role: server, nic_gbps: 100}\n"),
        |mut t, i| {
            use std::fmt::Write;
            let _ = writeln!(
                t,
                "- {{name: w{i}, accelerators: {{type: NVIDIA-L4}}, nic_gbps: 10}}"
            );
            t
        },
    );
    sidecar.publish(cluster(&big));
    let request = v1::PredictRequest {
        job: Some(v1::Job {
            file: text.into(),
            ..v1::Job::default()
        }),
        model: "simulation".into(),
        ..v1::PredictRequest::default()
    };
    let status = client.predict(request.clone()).await.expect_err("too long");
    assert_eq!(reason(&status), "SIMULATION_TOO_LONG");
    // Within its deadline, or it says so.
    let mut hurried = tonic::Request::new(request);
    hurried
        .metadata_mut()
        .insert("grpc-timeout", "1m".parse().expect("a timeout"));
    let status = client.predict(hurried).await.expect_err("too late");
    assert!(
        matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled),
        "{status}"
    );
}

#[tokio::test]
async fn nodes_are_listed_watched_and_replaced() {
    let sidecar = Sidecar::new(cluster(NODES));
    let channel = connect(&sidecar).await;
    let mut client = InventoryClient::new(channel.clone());
    let page = client
        .list_nodes(v1::ListNodesRequest {
            page_size: 3,
            ..v1::ListNodesRequest::default()
        })
        .await
        .expect("a page")
        .into_inner();
    assert_eq!(page.nodes.len(), 3);
    let rest = client
        .list_nodes(v1::ListNodesRequest {
            page_token: page.next_page_token,
            ..v1::ListNodesRequest::default()
        })
        .await
        .expect("a page")
        .into_inner();
    assert_eq!((rest.nodes.len(), rest.next_page_token.as_str()), (4, ""));
    let mut watch = client
        .watch_nodes(v1::WatchNodesRequest::default())
        .await
        .expect("a watch")
        .into_inner();
    let first = watch.message().await.expect("a message").expect("nodes");
    assert_eq!((first.changed.len(), first.complete), (7, true));
    sidecar.publish(cluster(
        &NODES
            .replace("nic_gbps: 10,", "nic_gbps: 40,")
            .replace("count: 4, acc", "count: 3, acc"),
    ));
    let next = watch.message().await.expect("a message").expect("changes");
    let mut changed: Vec<&str> = next.changed.iter().map(|n| n.name.as_str()).collect();
    changed.sort_unstable();
    assert_eq!(
        (changed, next.removed),
        (vec!["b-0", "b-1"], vec!["a-3".to_owned()])
    );
    // The answer follows the nodes.
    let mut predictor = PredictorClient::new(channel);
    let request = v1::PredictRequest {
        job: Some(job()),
        nodes: Some(set(&["a-3"])),
        ..v1::PredictRequest::default()
    };
    let status = predictor.predict(request).await.expect_err("it is gone");
    assert_eq!(fields(&status), ["nodes.names[0]"]);
}

#[tokio::test]
async fn changes_need_an_identity_and_refusals_are_counted() {
    let sidecar = Sidecar::new(cluster(NODES));
    let channel = connect(&sidecar).await;
    let mut calibration = CalibrationClient::new(channel.clone());
    let got = calibration
        .get(v1::GetRequest {})
        .await
        .expect("reading is open")
        .into_inner();
    assert_eq!(got.version, "");
    assert!(got.file.contains("goodput"));
    let status = calibration
        .import(v1::ImportRequest { file: got.file })
        .await
        .expect_err("refused");
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::PermissionDenied, "NOT_ALLOWED")
    );
    let mut observations = ObservationsClient::new(channel);
    let report = v1::ReportStepsRequest {
        job_id: "x".into(),
        ..v1::ReportStepsRequest::default()
    };
    let status = observations
        .report_steps(tokio_stream::iter([report]))
        .await
        .expect_err("refused");
    assert_eq!(status.code(), Code::PermissionDenied);
    let metrics = sidecar.metrics();
    assert!(
        metrics.contains("stepcast_refused_calls_total{method=\"Calibration/Import\"} 1"),
        "{metrics}"
    );
    assert!(metrics.contains(
        "stepcast_rpc_requests_total{code=\"PERMISSION_DENIED\",method=\"Calibration/Import\"} 1"
    ));
}

/// What was remembered of one state of the nodes says nothing wrong in the
/// next, and the order counts where it counts.
#[tokio::test]
async fn remembered_answers_keep_to_their_nodes() {
    let text = |names: &[&str]| {
        names.iter().fold(String::from("nodes:\n"), |text, name| {
            let device = if name.starts_with("fast") {
                "NVIDIA-H200"
            } else {
                "Tesla-T4"
            };
            text + &format!("- {{name: {name}, accelerators: {{type: {device}}}, nic_gbps: 10}}\n")
        })
    };
    let sidecar = Sidecar::new(cluster(&text(&["b", "c", "fast"])));
    let mut client = PredictorClient::new(connect(&sidecar).await);
    let mut ask = async |strategy: v1::strategy::Kind, names: &[&str]| {
        let request = v1::PredictRequest {
            job: Some(v1::Job {
                strategy: Some(v1::Strategy {
                    kind: Some(strategy),
                }),
                ..job()
            }),
            nodes: Some(set(names)),
            ..v1::PredictRequest::default()
        };
        let answer = client.predict(request).await.expect("an answer");
        answer.into_inner().prediction.expect("a prediction")
    };
    let single = || v1::strategy::Kind::Single(v1::Single {});
    let all = || v1::strategy::Kind::AllReduce(v1::AllReduce::default());
    let slow = ask(single(), &["b", "fast"]).await;
    let fast = ask(single(), &["fast", "b"]).await;
    assert!(
        fast.iteration_time_seconds < slow.iteration_time_seconds / 2.0,
        "the first counts"
    );
    let before = ask(all(), &["b"]).await;
    assert!(before.bottleneck.contains("on b "), "{}", before.bottleneck);
    // Another node comes first now: indices mean others.
    sidecar.publish(cluster(&text(&["a", "b", "c", "fast"])));
    let after = ask(all(), &["a"]).await;
    assert!(after.bottleneck.contains("on a "), "{}", after.bottleneck);
    assert_eq!(after.baseline.expect("a baseline").node, "a");
}

#[tokio::test]
async fn what_holds_others_up_is_refused() {
    let sidecar = Sidecar::new(cluster(NODES));
    let mut client = PredictorClient::new(connect(&sidecar).await);
    let ps = v1::Job {
        file: "{workload: alexnet, batch_size: 8, strategy: {parameter_server: {sync: asp}}}"
            .into(),
        ..v1::Job::default()
    };
    let request = v1::PredictBatchRequest {
        job: Some(ps),
        sets: vec![set(&["a-0"])],
        model: "simulation".into(),
    };
    let status = client
        .predict_batch(request)
        .await
        .expect_err("one at a time");
    assert_eq!(fields(&status), ["model"]);
    let node = |i: u32| v1::Node {
        name: format!("n{i}"),
        accelerator_type: "NVIDIA-L4".into(),
        accelerator_count: 1024,
        nic_gbps: 10.0,
        ..v1::Node::default()
    };
    let request = v1::PredictRequest {
        job: Some(job()),
        nodes: Some(v1::NodeSet {
            nodes: (0..200).map(node).collect(),
            ..v1::NodeSet::default()
        }),
        ..v1::PredictRequest::default()
    };
    let status = client.predict(request).await.expect_err("too many workers");
    assert_eq!(reason(&status), "TOO_MANY_WORKERS");
    // A hundred unknown names fit into what clients take of a status.
    let names: Vec<String> = (0..100).map(|i| format!("unknown-{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let request = v1::PredictRequest {
        job: Some(job()),
        nodes: Some(set(&names)),
        ..v1::PredictRequest::default()
    };
    let status = client.predict(request).await.expect_err("unknown");
    assert!(
        status.message().starts_with("100 fields are wrong"),
        "{status}"
    );
    assert!(status.details().len() + status.message().len() < 5000);
}
