//! The sidecar fed with arbitrary messages and arbitrary bytes.

use crate::serve::{NODES, cluster, connect, job, named, set};
use proptest::prelude::*;
use prost::Message;
use std::time::Duration;
use stepcast::protocol::v1;
use stepcast::protocol::v1::predictor_client::PredictorClient;
use stepcast::serve::testing::Sidecar;
use tonic::transport::Channel;
use tonic::{Code, Status};

/// Any number, now and then one that makes sense.
fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![any::<f64>(), 0.5f64..64.0, 0.5f64..64.0]
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9-]{0,8}",
        "\\PC{0,12}",
        Just("a-0".into()),
        Just("resnet50".into())
    ]
}

prop_compose! {
    fn any_job()(
        name in any_text(),
        workload in any_text(),
        layers in prop::collection::vec((any_text(), any::<f64>(), prop::collection::vec(any::<u64>(), 0..3)), 0..4),
        kind in prop_oneof![0u8..5, Just(0u8)],
        batch in prop_oneof![Just(None), any::<u32>().prop_map(|b| Some(v1::job::Batch::BatchSize(b))), (1u32..64).prop_map(|b| Some(v1::job::Batch::BatchSize(b))), (20u64..600).prop_map(|b| Some(v1::job::Batch::GlobalBatchSize(b))), any::<u64>().prop_map(|b| Some(v1::job::Batch::GlobalBatchSize(b)))],
        precision in prop_oneof![-1i32..8, 0i32..6],
        steps in prop_oneof![any::<u64>(), 0u64..100_000, 0u64..100_000],
        numbers in (prop_oneof![0u32..5, any::<u32>()], prop_oneof![0u32..3, any::<u32>()], any_number(), any_number(), -1i32..5),
        strategy in 0u8..5,
    ) -> v1::Job {
        let description = match kind {
            0 => Some(v1::workload::Description::CatalogueName(workload)),
            1 => Some(v1::workload::Description::Totals(v1::WorkloadTotals { name: workload, parameters: steps, forward_flops: numbers.2, tensors: numbers.0 })),
            2 => Some(v1::workload::Description::Layers(v1::WorkloadLayers { layers: layers.into_iter().map(|(name, forward_flops, parameters)| v1::Layer { name, forward_flops, parameters }).collect() })),
            3 => Some(v1::workload::Description::Profile(workload)),
            _ => None,
        };
        let fusion = Some(v1::Fusion { kind: match numbers.4 {
            0 => Some(v1::fusion::Kind::Buffer(v1::BufferFusion { buffer_mib: numbers.2, timeout_ms: numbers.3 })),
            1 => Some(v1::fusion::Kind::Partition(v1::PartitionFusion { partition_mib: numbers.2, priority: true })),
            2 => Some(v1::fusion::Kind::Adaptive(v1::AdaptiveFusion {})),
            3 => Some(v1::fusion::Kind::MgWfbp(v1::MgWfbpFusion {})),
            _ => None,
        }});
        let kind = match strategy {
            0 => Some(v1::strategy::Kind::Single(v1::Single {})),
            1 => Some(v1::strategy::Kind::ParameterServer(v1::ParameterServer { sync: numbers.4, staleness: numbers.0, servers: numbers.1, overlap: Some(steps % 2 == 0), local_aggregation: steps % 3 == 0, fusion })),
            2 => Some(v1::strategy::Kind::AllReduce(v1::AllReduce { algorithm: numbers.4, overlap: None, fusion })),
            3 => Some(v1::strategy::Kind::AsyncAllReduce(v1::AsyncAllReduce { samples: steps, sample_kib: numbers.0 })),
            _ => None,
        };
        v1::Job {
            name,
            workload: Some(v1::Workload { description, sequence_length: numbers.1 % 5000 }),
            batch,
            precision,
            steps,
            strategy: Some(v1::Strategy { kind }),
            file: String::new(),
        }
    }
}

prop_compose! {
    fn any_request()(
        job in prop::option::weighted(0.95, any_job()),
        names in prop_oneof![Just(vec![]), Just(vec!["a-0".to_owned(), "b-1".to_owned()]), prop::collection::vec(any_text(), 0..4)],
        selector in prop_oneof![Just(String::new()), Just(String::new()), "\\PC{0,20}", Just("gpu in (a,b)".into())],
        own in prop_oneof![Just(vec![]), Just(vec![]), prop::collection::vec((any_text(), any_text(), any::<u32>(), any_number()), 0..3)],
        workers in prop_oneof![Just(0u32), Just(0u32), any::<u32>()],
        model in prop_oneof![Just(String::new()), Just(String::new()), any_text(), Just("asp".into()), Just("zeng".into())],
        baseline in prop_oneof![Just(String::new()), Just(String::new()), any_text()],
    ) -> v1::PredictRequest {
        v1::PredictRequest {
            job,
            nodes: Some(v1::NodeSet {
                names,
                label_selector: selector,
                nodes: own.into_iter().map(|(name, accelerator_type, n, nic_gbps)| v1::Node { name, accelerator_type, accelerator_count: n, nic_gbps, ..v1::Node::default() }).collect(),
                workers,
            }),
            model,
            baseline,
        }
    }
}

/// One runtime and one connection for all cases of a property.
fn with_client<T>(work: impl AsyncFnOnce(Channel) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let sidecar = Sidecar::new(cluster(NODES));
        work(connect(&sidecar).await).await
    })
}

/// Arbitrary valid messages: an answer or an error, soon, and the server
/// lives on.
#[test]
fn arbitrary_messages_are_answered_or_refused() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    with_client(async |channel| {
        let mut runner = TestRunner::deterministic();
        let mut client = PredictorClient::new(channel);
        let mut answered = 0;
        for case in 0..1500 {
            let tree = any_request().new_tree(&mut runner);
            let mut request = tree.expect("a request").current();
            if case % 3 > 0 {
                // All of it at random is never right: some parts are.
                request.nodes = Some(set(&["a-0", "b-1"]));
                request.model.clear();
                request.baseline.clear();
            }
            if let Some(job) = request.job.as_mut().filter(|_| case % 3 == 2) {
                job.workload = Some(named("resnet18"));
                job.batch = Some(v1::job::Batch::GlobalBatchSize(64));
                job.precision = 0;
                job.steps = 0;
            }
            let call =
                tokio::time::timeout(Duration::from_secs(20), client.predict(request.clone()));
            match call
                .await
                .unwrap_or_else(|_| panic!("it hangs on {request:?}"))
            {
                Ok(answer) => {
                    answered += 1;
                    let p = answer.into_inner().prediction.expect("a prediction");
                    assert!(p.iteration_time_seconds > 0.0, "{request:?}");
                }
                Err(status) => {
                    assert!(
                        !matches!(
                            status.code(),
                            Code::Internal | Code::Unknown | Code::Unavailable
                        ),
                        "{status:?} on {request:?}"
                    );
                }
            }
        }
        println!("{answered} of 1500 had an answer");
        assert!(answered > 50, "{answered}");
    });
}

/// Arbitrary bytes as a message.
#[test]
fn arbitrary_bytes_are_refused() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    with_client(async |channel| {
        let mut runner = TestRunner::deterministic();
        let good = v1::PredictRequest {
            job: Some(job()),
            nodes: Some(set(&["a-0"])),
            ..v1::PredictRequest::default()
        }
        .encode_to_vec();
        let mut client = tonic::client::Grpc::new(channel);
        for case in 0..1500 {
            let mut bytes = if case % 2 == 0 {
                prop::collection::vec(any::<u8>(), 0..200)
                    .new_tree(&mut runner)
                    .expect("bytes")
                    .current()
            } else {
                good.clone()
            };
            if case % 2 == 1 {
                // A good message with a byte turned.
                let at = case % bytes.len();
                bytes[at] = bytes[at].wrapping_add(1 + (case / bytes.len()) as u8);
            }
            client.ready().await.expect("the server lives");
            let call = client.unary(
                tonic::Request::new(Raw(bytes.clone())),
                "/stepcast.v1.Predictor/Predict".parse().expect("a path"),
                RawCodec,
            );
            let done = tokio::time::timeout(Duration::from_secs(20), call).await;
            if let Err(status) = done.unwrap_or_else(|_| panic!("it hangs on {bytes:?}")) {
                // tonic says INTERNAL where bytes are no message.
                let no_message = status.message().contains("failed to decode");
                assert!(
                    no_message
                        || !matches!(
                            status.code(),
                            Code::Internal | Code::Unknown | Code::Unavailable
                        ),
                    "{status:?} on {bytes:?}"
                );
            }
        }
    });
}

/// Bytes as they are.
struct Raw(Vec<u8>);

struct RawCodec;

impl tonic::codec::Codec for RawCodec {
    type Encode = Raw;
    type Decode = Raw;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl tonic::codec::Encoder for RawCodec {
    type Item = Raw;
    type Error = Status;

    fn encode(
        &mut self,
        item: Raw,
        buffer: &mut tonic::codec::EncodeBuf<'_>,
    ) -> Result<(), Status> {
        bytes::BufMut::put_slice(buffer, &item.0);
        Ok(())
    }
}

impl tonic::codec::Decoder for RawCodec {
    type Item = Raw;
    type Error = Status;

    fn decode(&mut self, buffer: &mut tonic::codec::DecodeBuf<'_>) -> Result<Option<Raw>, Status> {
        use bytes::Buf;
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        Ok(Some(Raw(bytes.to_vec())))
    }
}
